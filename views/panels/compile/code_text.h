// CodeText: a kernel's loops or code, with the parts that compute a node in the colour that the node has on the canvas,
// and its number in the legend beside the line. A click on a part tells its node. Long lines are wrapped. It can be
// edited.
#pragma once

#include <QHash>
#include <QJsonArray>
#include <QWidget>

class QsciLexerCPP;
class QsciScintilla;

namespace graft {

class CodeText : public QWidget {
  Q_OBJECT

 public:
  enum Language { Plain, Cpp };

  explicit CodeText(Language language, const QString& name, QWidget* parent = nullptr);
  /// `nodes` in the order of their colours; `spans`: {"node", "begin", "end"}, bytes of the text.
  void setCode(const QString& text, const QStringList& nodes, const QJsonArray& spans);
  /// Says why there is none.
  void setNone(const QString& why);
  QString text() const;
  void setText(const QString& text);
  /// The numbers that stand beside a line, from 0: "1", "1–3 5"; empty for none.
  QString numbersOf(int line) const;
  /// Outlines what computes the node, and brings it into view.
  void setNode(const QString& node);
  /// The node that the character at this byte computes; empty for none.
  QString nodeAt(int byte) const;
  /// The first node of which something stands on the line, from 0; empty for none.
  QString firstNodeOf(int line) const;
  /// The lines, from 0, on which something computes the node.
  QList<int> linesOf(const QString& node) const;
  void setEditing(bool on);
  bool isEditing() const { return editing_; }
  /// Says something below a line, from 0.
  void annotate(int line, const QString& text);
  void clearAnnotations();
  QString annotation(int line) const;
  /// The line that stores into the buffer; -1 for none.
  int lineStoring(const QString& buffer) const;
  void refreshTheme();
  QsciScintilla* editor() { return view_; }

 Q_SIGNALS:
  void nodeClicked(const QString& node);

 protected:
  bool eventFilter(QObject*, QEvent*) override;

 private:
  void colour();
  void numberLines();
  void setMargin(int margin, int width);
  int lineOf(int byte) const;
  void scrollTo(int line);

  struct Span {
    QString node;
    int begin = 0, end = 0;
  };
  QsciScintilla* view_;
  QsciLexerCPP* lexer_ = nullptr;
  QStringList nodes_;
  QList<Span> spans_;
  QHash<int, QString> numbers_;  ///< by line
  QString node_;
  bool editing_ = false, filling_ = false;
};

}  // namespace graft
