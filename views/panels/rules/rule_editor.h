// RuleEditor: the rules as text, with one sentence of state above. Pattern nodes wear their colour in the text, errors
// are underlined where they are; hovering a pattern node's text says which it is.
#pragma once

#include <QKeySequence>
#include <QTimer>
#include <QWidget>

#include "views/document/document.h"
#include "views/widgets/fixed_height_label.h"

class QsciScintilla;
class QsciLexerPython;

namespace graft {
class CallTip;
class RuleWords;
}  // namespace graft

namespace graft {

class RuleEditor : public QWidget {
  Q_OBJECT

 public:
  explicit RuleEditor(Document& document, QWidget* parent = nullptr);

  /// `modified`: it is not what the file holds.
  void setText(const QString& text, bool modified = false);
  QString text() const;
  void setFile(const QString& path) { file_ = path; }
  QString file() const { return file_; }
  bool isModified() const;
  void setSaved();
  QString sentence() const;
  /// Lights the text of a pattern node of the current rule; "" for none.
  void setLit(const QString& patternNode);
  QString lit() const { return lit_; }
  void showLine(int line);
  /// A first rule with its imports, as something to change.
  void startRule();
  /// Makes the edits, which one step back takes all together. False, and nothing changed, where the text is another.
  bool change(const QList<RuleEdit>& edits);
  /// What completion offers besides the words of the text: "F.gelu(input, approximate)".
  void setWords(const QStringList& words);
  bool isCompleting() const;
  CallTip* callTip() { return tip_; }
  /// The window's shortcuts: the text does nothing of its own on them, but for undo and redo.
  void leaveKeys(const QList<QKeySequence>& keys);
  void refreshTheme();
  QsciScintilla* scintilla() { return editor_; }

 Q_SIGNALS:
  void libraryAsked();
  void patternHovered(const QString& patternNode);

 protected:
  bool eventFilter(QObject*, QEvent*) override;

 private:
  void mark();
  void tell();
  int importWhatIsUsed(const QString& inserted);
  void followCursor();
  void tellCall();
  bool completesNothing() const;
  QString patternAt(int line, int column) const;

  Document& document_;
  QsciScintilla* editor_;
  QsciLexerPython* lexer_;
  RuleWords* words_ = nullptr;
  CallTip* tip_;
  FixedHeightLabel* sentence_;
  QString file_, hovered_, lit_;
  QString told_;  ///< the rule whose matches the sentence tells
  bool quiet_ = false, modified_ = false;
};

}  // namespace graft
