#include "views/widgets/python_style.h"

#include "views/widgets/qscintilla.h"
#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {

namespace {

struct CodeColours {
  Color keyword, string, number, name;
};

CodeColours codeColours(const Palette& p) {
  return p.dark ? CodeColours{{198, 160, 246}, {152, 205, 140}, {245, 180, 120}, {125, 190, 250}}
                : CodeColours{{122, 40, 160}, {40, 110, 50}, {160, 80, 0}, {0, 80, 160}};
}

void styleText(QsciLexer& lexer) {
  const QColor paper = toQt(themePalette().background), text = toQt(themePalette().text);
  lexer.setFont(monospace());
  lexer.setPaper(paper);
  lexer.setColor(text);
  lexer.setDefaultPaper(paper);
  lexer.setDefaultColor(text);
}

}  // namespace

void stylePython(QsciScintilla& editor, QsciLexerPython& lexer) {
  const Palette& p = themePalette();
  styleText(lexer);
  auto color = [&](int style, Color c) { lexer.setColor(toQt(c), style); };
  const auto [keyword, string, number, name] = codeColours(p);
  color(QsciLexerPython::Keyword, keyword);
  for (int style : {QsciLexerPython::DoubleQuotedString, QsciLexerPython::SingleQuotedString,
                    QsciLexerPython::TripleDoubleQuotedString, QsciLexerPython::TripleSingleQuotedString,
                    QsciLexerPython::UnclosedString})
    color(style, string);
  lexer.setPaper(toQt(p.background), QsciLexerPython::UnclosedString);
  color(QsciLexerPython::Number, number);
  color(QsciLexerPython::ClassName, name);
  color(QsciLexerPython::FunctionMethodName, name);
  color(QsciLexerPython::Comment, p.dim);
  color(QsciLexerPython::CommentBlock, p.dim);
  color(QsciLexerPython::Decorator, number);
  styleEditor(editor);
}

void styleCpp(QsciScintilla& editor, QsciLexerCPP& lexer) {
  const Palette& p = themePalette();
  styleText(lexer);
  const auto [keyword, string, number, name] = codeColours(p);
  lexer.setColor(toQt(keyword), QsciLexerCPP::Keyword);
  lexer.setColor(toQt(number), QsciLexerCPP::Number);
  for (int style : {QsciLexerCPP::DoubleQuotedString, QsciLexerCPP::SingleQuotedString})
    lexer.setColor(toQt(string), style);
  for (int style : {QsciLexerCPP::Comment, QsciLexerCPP::CommentLine, QsciLexerCPP::PreProcessor})
    lexer.setColor(toQt(p.dim), style);
  styleEditor(editor);
}

void styleEditor(QsciScintilla& editor) {
  const Palette& p = themePalette();
  const QColor paper = toQt(p.background), text = toQt(p.text);
  const QFont font = monospace();
  editor.setMarginsBackgroundColor(paper);
  editor.setMarginsForegroundColor(toQt(p.faint()));
  editor.setMarginsFont(font);
  constexpr int gap = 8;  // between the numbers and the text
  editor.SendScintilla(QsciScintillaBase::SCI_SETMARGINLEFT, 0L, static_cast<long>(gap));
  editor.setCaretForegroundColor(text);
  editor.setCaretLineBackgroundColor(toQt(mix(p.background, p.text, 0.04)));
  editor.setSelectionBackgroundColor(toQt(mix(p.background, p.accent, 0.3)));
  editor.resetSelectionForegroundColor();
}

}  // namespace graft
