#include "views/widgets/python_style.h"

#include "views/widgets/qscintilla.h"
#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {

void stylePython(QsciScintilla& editor, QsciLexerPython& lexer) {
  const Palette& p = themePalette();
  const QColor paper = toQt(p.background), text = toQt(p.text);
  const QFont font = monospace();
  lexer.setFont(font);
  lexer.setPaper(paper);
  lexer.setColor(text);
  lexer.setDefaultPaper(paper);
  lexer.setDefaultColor(text);
  auto color = [&](int style, Color c) { lexer.setColor(toQt(c), style); };
  const Color keyword = p.dark ? Color{198, 160, 246} : Color{122, 40, 160},
              string = p.dark ? Color{152, 205, 140} : Color{40, 110, 50},
              number = p.dark ? Color{245, 180, 120} : Color{160, 80, 0},
              name = p.dark ? Color{125, 190, 250} : Color{0, 80, 160};
  color(QsciLexerPython::Keyword, keyword);
  for (int style : {QsciLexerPython::DoubleQuotedString, QsciLexerPython::SingleQuotedString,
                    QsciLexerPython::TripleDoubleQuotedString, QsciLexerPython::TripleSingleQuotedString,
                    QsciLexerPython::UnclosedString})
    color(style, string);
  lexer.setPaper(paper, QsciLexerPython::UnclosedString);
  color(QsciLexerPython::Number, number);
  color(QsciLexerPython::ClassName, name);
  color(QsciLexerPython::FunctionMethodName, name);
  color(QsciLexerPython::Comment, p.dim);
  color(QsciLexerPython::CommentBlock, p.dim);
  color(QsciLexerPython::Decorator, number);
  editor.setMarginsBackgroundColor(paper);
  editor.setMarginsForegroundColor(toQt(mix(p.background, p.text, 0.4)));
  editor.setMarginsFont(font);
  constexpr int gap = 8;  // between the numbers and the text
  editor.SendScintilla(QsciScintillaBase::SCI_SETMARGINLEFT, 0L, static_cast<long>(gap));
  editor.setCaretForegroundColor(text);
  editor.setCaretLineBackgroundColor(toQt(mix(p.background, p.text, 0.04)));
  editor.setSelectionBackgroundColor(toQt(mix(p.background, p.accent, 0.3)));
  editor.resetSelectionForegroundColor();
}

}  // namespace graft
