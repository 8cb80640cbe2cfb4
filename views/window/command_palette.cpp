#include "views/window/command_palette.h"

#include <QEvent>
#include <QGraphicsDropShadowEffect>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>

#include "views/widgets/theme.h"

namespace graft {

int fuzzyScore(const QString& wanted, const QString& text) {
  int score = 1, at = 0;
  bool follows = false;
  for (const QChar c : wanted) {
    if (c.isSpace()) continue;
    int found = -1;
    for (int i = at; i < text.size(); ++i)
      if (text[i].toLower() == c.toLower()) {
        found = i;
        break;
      }
    if (found < 0) return 0;
    const bool start = found == 0 || !text[found - 1].isLetterOrNumber();
    score += start ? 8 : follows && found == at ? 9 : 1;
    follows = true;
    at = found + 1;
  }
  return score * 100 - static_cast<int>(text.size());
}

namespace {

/// What an action is called where no menu says what it belongs to.
QString wordsOf(const QAction& action) {
  const QString own = action.data().toString();
  return own.isEmpty() ? action.text().remove(QLatin1Char('&')) : own;
}

}  // namespace

CommandPalette::CommandPalette(QWidget* window) : QFrame(window) {
  setFrameShape(QFrame::StyledPanel);
  setAutoFillBackground(true);
  setObjectName(QStringLiteral("commandPalette"));
  line_ = new QLineEdit(this);
  line_->setAccessibleName(tr("Name of an action"));
  line_->setPlaceholderText(tr("What do you want to do?"));
  list_ = new QListWidget(this);
  list_->setAccessibleName(tr("Actions"));
  list_->setUniformItemSizes(true);
  list_->setFocusPolicy(Qt::NoFocus);
  list_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(10, 10, 10, 10);
  column->addWidget(line_);
  column->addWidget(list_);
  auto* shadow = new QGraphicsDropShadowEffect(this);
  shadow->setBlurRadius(32);
  shadow->setOffset(0, 8);
  shadow->setColor(QColor(0, 0, 0, 90));
  setGraphicsEffect(shadow);
  line_->installEventFilter(this);
  connect(line_, &QLineEdit::textChanged, this, &CommandPalette::fill);
  connect(list_, &QListWidget::itemClicked, this, &CommandPalette::run);
  hide();
}

void CommandPalette::open(const QList<QAction*>& actions, QWidget* otherwise) {
  actions_ = actions;
  otherwise_ = otherwise;
  resize(std::min(560, parentWidget()->width() - 40), 380);
  move((parentWidget()->width() - width()) / 2, 64);
  line_->clear();
  fill();
  before_ = window()->focusWidget();
  show();
  raise();
  line_->setFocus();
}

void CommandPalette::fill() {
  std::vector<std::pair<int, QAction*>> fitting;
  for (QAction* action : actions_) {
    const int score = fuzzyScore(line_->text(), wordsOf(*action));
    if (score != 0 && !action->isSeparator()) fitting.emplace_back(-score, action);
  }
  if (!line_->text().isEmpty())
    std::stable_sort(fitting.begin(), fitting.end(), [](auto& a, auto& b) { return a.first < b.first; });
  list_->clear();
  for (auto& [score, action] : fitting) {
    auto* item = new QListWidgetItem(list_);
    item->setData(Qt::UserRole, QVariant::fromValue<QObject*>(action));
    item->setData(Qt::AccessibleTextRole, wordsOf(*action));
    auto* row = new QWidget;
    auto* across = new QHBoxLayout(row);
    across->setContentsMargins(6, 0, 6, 0);
    auto* name = new QLabel(wordsOf(*action));
    auto* keys = new QLabel(action->shortcut().toString(QKeySequence::NativeText));
    name->setEnabled(action->isEnabled());
    tint(*keys, themePalette().dim);
    across->addWidget(name);
    across->addStretch();
    across->addWidget(keys);
    item->setSizeHint(QSize(0, 28));
    list_->setItemWidget(item, row);
  }
  list_->setCurrentRow(0);
}

/// The keyboard goes back to where it was; whoever clicks elsewhere is there already.
void CommandPalette::leave() {
  QWidget* to = before_ && before_->isVisible() ? before_ : otherwise_;
  if (to) to->setFocus();
  hide();
}

void CommandPalette::run() {
  QListWidgetItem* item = list_->currentItem();
  leave();
  if (!item) return;
  auto* action = qobject_cast<QAction*>(item->data(Qt::UserRole).value<QObject*>());
  if (action && action->isEnabled()) QTimer::singleShot(0, action, &QAction::trigger);
}

bool CommandPalette::eventFilter(QObject* object, QEvent* e) {
  if (e->type() == QEvent::KeyPress) {
    auto* key = static_cast<QKeyEvent*>(e);
    const int row = list_->currentRow();
    switch (key->key()) {
      case Qt::Key_Escape:
        return leave(), true;
      case Qt::Key_Return:
      case Qt::Key_Enter:
        return run(), true;
      case Qt::Key_Down:
        return list_->setCurrentRow(std::min(row + 1, list_->count() - 1)), true;
      case Qt::Key_Up:
        return list_->setCurrentRow(std::max(row - 1, 0)), true;
      default:
        break;
    }
  } else if (e->type() == QEvent::FocusOut) {
    hide();
  }
  return QFrame::eventFilter(object, e);
}

}  // namespace graft
