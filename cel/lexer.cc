#include "cel/lexer.h"

#include "cel/value_internal.h"

namespace muster::cel {
namespace {

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
int HexDigit(char c) {
  if (IsDigit(c)) {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::expected<std::vector<Token>, LexError> Run() {
    std::vector<Token> tokens;
    while (true) {
      SkipBlanks();
      Token token{.offset = static_cast<std::uint32_t>(at_)};
      if (at_ == text_.size()) {
        tokens.push_back(std::move(token));
        return tokens;
      }
      if (!Next(token)) {
        return std::unexpected(std::move(error_));
      }
      tokens.push_back(std::move(token));
    }
  }

 private:
  [[nodiscard]] char Peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  bool Fail(std::size_t offset, std::string message) {
    error_ = LexError{.offset = static_cast<std::uint32_t>(offset), .message = std::move(message)};
    return false;
  }

  void SkipBlanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f') {
        ++at_;
      } else if (c == '/' && Peek(1) == '/') {
        while (at_ < text_.size() && text_[at_] != '\n') {
          ++at_;
        }
      } else {
        return;
      }
    }
  }

  bool Next(Token& token) {
    const char c = Peek();
    if (const std::size_t quote = QuoteAfterPrefix(); quote != std::string_view::npos) {
      return ReadString(token, quote);
    }
    if (IsLetter(c)) {
      const std::size_t begin = at_;
      while (IsLetter(Peek()) || IsDigit(Peek())) {
        ++at_;
      }
      token.text = std::string(text_.substr(begin, at_ - begin));
      const bool keyword = token.text == "in" || token.text == "true" || token.text == "false" ||
                           token.text == "null";
      token.kind = keyword ? Token::Kind::kKeyword : Token::Kind::kIdent;
      return true;
    }
    if (IsDigit(c) || (c == '.' && IsDigit(Peek(1)))) {
      return ReadNumber(token);
    }
    static constexpr std::string_view kSymbols[] = {"&&", "||", "==", "!=", "<=", ">="};
    for (const std::string_view symbol : kSymbols) {
      if (text_.substr(at_, 2) == symbol) {
        at_ += 2;
        token.kind = Token::Kind::kSymbol;
        token.text = std::string(symbol);
        return true;
      }
    }
    static constexpr std::string_view kSingle = "<>!+-*/%?:.,()[]{}";
    if (kSingle.contains(c)) {
      ++at_;
      token.kind = Token::Kind::kSymbol;
      token.text = std::string(1, c);
      return true;
    }
    return Fail(at_, "Syntax error: token recognition error at: '" + std::string(1, c) + "'");
  }

  // The position of the opening quote if a string or bytes literal starts here, with any of the
  // prefixes r, b, rb, br.
  [[nodiscard]] std::size_t QuoteAfterPrefix() const {
    std::size_t i = at_;
    bool raw = false;
    bool bytes = false;
    while (i < text_.size() && i < at_ + 2) {
      const char c = text_[i];
      if ((c == 'r' || c == 'R') && !raw) {
        raw = true;
      } else if ((c == 'b' || c == 'B') && !bytes && !raw) {
        bytes = true;
      } else {
        break;
      }
      ++i;
    }
    return i < text_.size() && (text_[i] == '"' || text_[i] == '\'') ? i : std::string_view::npos;
  }

  bool ReadString(Token& token, std::size_t quote_at) {
    const std::string_view prefix = text_.substr(at_, quote_at - at_);
    const bool raw = prefix.find_first_of("rR") != std::string_view::npos;
    const bool bytes = prefix.find_first_of("bB") != std::string_view::npos;
    const std::size_t begin = at_;
    const char quote = text_[quote_at];
    at_ = quote_at + 1;
    const bool triple = Peek() == quote && Peek(1) == quote;
    if (triple) {
      at_ += 2;
    }
    std::string out;
    while (true) {
      if (at_ >= text_.size()) {
        return Fail(begin, "Syntax error: unterminated string");
      }
      const char c = text_[at_];
      if (c == quote && (!triple || (Peek(1) == quote && Peek(2) == quote))) {
        at_ += triple ? 3 : 1;
        break;
      }
      if (!triple && (c == '\n' || c == '\r')) {
        return Fail(begin, "Syntax error: unterminated string");
      }
      if (c == '\\' && !raw) {
        if (!ReadEscape(out, bytes)) {
          return false;
        }
        continue;
      }
      // Line ends inside triple quotes are read as one line feed.
      if (c == '\r') {
        out.push_back('\n');
        at_ += Peek(1) == '\n' ? 2 : 1;
        continue;
      }
      out.push_back(c);
      ++at_;
    }
    if (!bytes && !IsValidUtf8(out)) {
      return Fail(begin, "string contains invalid UTF-8");
    }
    token.kind = bytes ? Token::Kind::kBytes : Token::Kind::kString;
    token.text = std::move(out);
    return true;
  }

  bool ReadEscape(std::string& out, bool bytes) {
    const std::size_t begin = at_;
    const char c = Peek(1);
    at_ += 2;
    switch (c) {
      case 'a':
        out.push_back('\a');
        return true;
      case 'b':
        out.push_back('\b');
        return true;
      case 'f':
        out.push_back('\f');
        return true;
      case 'n':
        out.push_back('\n');
        return true;
      case 'r':
        out.push_back('\r');
        return true;
      case 't':
        out.push_back('\t');
        return true;
      case 'v':
        out.push_back('\v');
        return true;
      case '\\':
      case '\'':
      case '"':
      case '`':
      case '?':
        out.push_back(c);
        return true;
      case 'x':
      case 'X':
        return ReadHex(out, begin, 2, bytes);
      case 'u':
        return bytes ? Fail(begin, "Syntax error: \\u in a bytes literal")
                     : ReadHex(out, begin, 4, false);
      case 'U':
        return bytes ? Fail(begin, "Syntax error: \\U in a bytes literal")
                     : ReadHex(out, begin, 8, false);
      case '0':
      case '1':
      case '2':
      case '3': {
        char32_t value = static_cast<char32_t>(c - '0');
        for (int i = 0; i < 2; ++i) {
          const char digit = Peek();
          if (digit < '0' || digit > '7') {
            return Fail(begin, "Syntax error: invalid octal escape");
          }
          value = value * 8 + static_cast<char32_t>(digit - '0');
          ++at_;
        }
        AppendPoint(out, value, bytes);
        return true;
      }
      default:
        return Fail(begin, "Syntax error: invalid escape sequence");
    }
  }

  bool ReadHex(std::string& out, std::size_t begin, int digits, bool bytes) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = HexDigit(Peek());
      if (digit < 0) {
        return Fail(begin, "Syntax error: invalid hexadecimal escape");
      }
      value = value * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
      return Fail(begin, "Syntax error: invalid unicode code point");
    }
    AppendPoint(out, value, bytes);
    return true;
  }

  static void AppendPoint(std::string& out, char32_t value, bool bytes) {
    if (bytes) {
      out.push_back(static_cast<char>(static_cast<unsigned char>(value)));
    } else {
      AppendUtf8(out, value);
    }
  }

  bool ReadNumber(Token& token) {
    const std::size_t begin = at_;
    token.kind = Token::Kind::kInt;
    if (Peek() == '0' && (Peek(1) == 'x' || Peek(1) == 'X') && HexDigit(Peek(2)) >= 0) {
      at_ += 2;
      while (HexDigit(Peek()) >= 0) {
        ++at_;
      }
    } else {
      while (IsDigit(Peek())) {
        ++at_;
      }
      if (Peek() == '.' && IsDigit(Peek(1))) {
        token.kind = Token::Kind::kDouble;
        ++at_;
        while (IsDigit(Peek())) {
          ++at_;
        }
      }
      const std::size_t sign = Peek(1) == '+' || Peek(1) == '-' ? 1 : 0;
      if ((Peek() == 'e' || Peek() == 'E') && IsDigit(Peek(1 + sign))) {
        token.kind = Token::Kind::kDouble;
        at_ += 1 + sign;
        while (IsDigit(Peek())) {
          ++at_;
        }
      }
    }
    token.text = std::string(text_.substr(begin, at_ - begin));
    if (token.kind == Token::Kind::kInt && (Peek() == 'u' || Peek() == 'U')) {
      token.kind = Token::Kind::kUint;
      ++at_;
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  LexError error_;
};

}  // namespace

std::expected<std::vector<Token>, LexError> Tokenize(std::string_view text) {
  return Lexer(text).Run();
}

}  // namespace muster::cel
