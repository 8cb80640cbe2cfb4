// RuleWords: what the rule editor offers while one types: names behind "F.", "torch.", "kernels." and behind values,
// and the parameters of a call. CallTip shows these above the line, the one that is being typed in bold.
#pragma once

#include <QHash>
#include <QLabel>
#include <QStringList>

#include "views/widgets/qscintilla.h"

namespace graft {

class RuleWords : public QsciAbstractAPIs {
 public:
  /// `words`: "F.gelu(input, approximate='none')", as the engine tells.
  RuleWords(QsciLexer* lexer, const QStringList& words);
  void updateAutoCompletionList(const QStringList& context, QStringList& list) override;
  /// QScintilla's own tips are not shown.
  QStringList callTips(const QStringList&, int, QsciScintilla::CallTipsStyle, QList<int>&) override { return {}; }
  /// The parameters of what is called so; empty where nobody knows. A value's method lacks the value itself.
  QStringList parametersOf(const QString& callee) const;

 private:
  QHash<QString, QStringList> parameters_;  ///< by full name
  QStringList plain_;                       ///< names without a dot
};

/// The call that the end of `text` stands in: "F.gelu", which argument it is at, and the keyword that is typed there.
struct OpenCall {
  QString callee, keyword;
  int argument = 0;
};
OpenCall openCall(const QString& text);

class CallTip : public QLabel {
  Q_OBJECT

 public:
  explicit CallTip(QWidget* parent);
  /// Above the line at `caret` (global, its top), or below where there is no room; nothing where it is no known call.
  void showFor(const OpenCall& call, const QStringList& parameters, QPoint caret, int lineHeight);
  /// Until another call is typed.
  void dismiss();
  void refreshTheme();

 protected:
  void paintEvent(QPaintEvent* e) override;

 private:
  QString dismissed_;
};

}  // namespace graft
