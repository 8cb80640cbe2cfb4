// SourceView: the Python that a node comes from, with its line marked. Reads nothing itself: what it shows is the
// engine's node/source.
#pragma once

#include <QJsonObject>
#include <QLabel>
#include <QWidget>

class QsciLexerPython;
class QsciScintilla;

namespace graft {

class SourceView : public QWidget {
  Q_OBJECT

 public:
  explicit SourceView(QWidget* parent = nullptr);
  /// {"file", "line", "first", "lines", "from"}
  void setSource(const QJsonObject& source);
  /// Says why there is none.
  void setNone(const QString& why);
  void refreshTheme();
  QString text() const;
  /// The file's name and line, as far as there is room: their end.
  QString heading() const { return head_->text(); }
  /// From 1, in the file; 0 where none is shown.
  int markedLine() const { return line_; }

 Q_SIGNALS:
  void closed();

 protected:
  void resizeEvent(QResizeEvent*) override;

 private:
  void setHeading(const QString& text);
  void numberLines();
  QLabel* head_;
  QString heading_;
  QsciScintilla* view_;
  QsciLexerPython* lexer_;
  int line_ = 0, first_ = 1;
};

}  // namespace graft
