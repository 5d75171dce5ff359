# cmake -D IN=file -D OUT=file.cc -P embed.cmake: the text of IN as muster::cli::kDemoCluster.
file(READ "${IN}" text)
file(WRITE "${OUT}" "#include \"cli/demo_scenario.h\"\n\nnamespace muster::cli {\nconst std::string_view kDemoCluster = R\"embedded(${text})embedded\";\n}  // namespace muster::cli\n")
