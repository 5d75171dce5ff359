# cmake -D FILES=a,b -D OUT=x.cc -P embed.cmake: a .cc with the bytes of each file, found by its name.
string(REPLACE "," ";" FILES "${FILES}")
set(arrays "")
set(rows "")
set(n 0)
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" hex HEX)
  file(SIZE "${file}" size)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND arrays "constexpr char kFile${n}[] = {${bytes}'\\0'};\n")
  string(APPEND rows "    {\"${name}\", std::string_view(kFile${n}, ${size})},\n")
  math(EXPR n "${n} + 1")
endforeach()
file(WRITE "${OUT}" "#include \"server/static_files.h\"

namespace muster::server {
namespace {
${arrays}
constexpr EmbeddedFile kFiles[] = {
${rows}};
}  // namespace

std::span<const EmbeddedFile> EmbeddedFiles() { return kFiles; }

}  // namespace muster::server
")
