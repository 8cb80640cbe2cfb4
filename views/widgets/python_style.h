// How Python looks in the window: one lexer's colours for the rule editor and for the model's source.
#pragma once

class QsciLexerPython;
class QsciScintilla;

namespace graft {

/// The theme's colours and the monospaced font for the text, its margins, caret and selection.
void stylePython(QsciScintilla& editor, QsciLexerPython& lexer);

}  // namespace graft
