// How code looks in the window: the lexers' colours for Python, in the rule editor and of the model's source, and for
// C++, of generated kernels.
#pragma once

class QsciLexerCPP;
class QsciLexerPython;
class QsciScintilla;

namespace graft {

/// The theme's colours and the monospaced font for the text, its margins, caret and selection.
void stylePython(QsciScintilla& editor, QsciLexerPython& lexer);
void styleCpp(QsciScintilla& editor, QsciLexerCPP& lexer);
/// The same of an editor without a lexer: margins, caret and selection.
void styleEditor(QsciScintilla& editor);

}  // namespace graft
