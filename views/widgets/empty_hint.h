// EmptyHint: a list without rows says what will stand there, or how to fill it.
//
//   new EmptyHint(tree, tr("The model has no modules."));
#pragma once

#include <QAbstractItemView>
#include <QEvent>
#include <QLabel>

#include "views/widgets/theme.h"

namespace graft {

class EmptyHint : public QLabel {
 public:
  EmptyHint(QAbstractItemView* view, const QString& text) : QLabel(text, view->viewport()), view_(view) {
    setWordWrap(true);
    setAlignment(Qt::AlignTop | Qt::AlignLeft);
    setContentsMargins(12, 10, 12, 10);
    setAttribute(Qt::WA_TransparentForMouseEvents);
    view->viewport()->installEventFilter(this);
    const QAbstractItemModel* rows = view->model();
    connect(rows, &QAbstractItemModel::rowsInserted, this, &EmptyHint::refresh);
    connect(rows, &QAbstractItemModel::rowsRemoved, this, &EmptyHint::refresh);
    connect(rows, &QAbstractItemModel::modelReset, this, &EmptyHint::refresh);
    refresh();
  }

 protected:
  bool eventFilter(QObject*, QEvent* e) override {
    if (e->type() == QEvent::Resize) resize(view_->viewport()->size());
    return false;
  }

  void changeEvent(QEvent* e) override {
    QLabel::changeEvent(e);
    if (e->type() == QEvent::PaletteChange) refresh();
  }

 private:
  void refresh() {
    setVisible(view_->model()->rowCount() == 0);
    tint(*this, themePalette().dim);
  }
  QAbstractItemView* view_;
};

}  // namespace graft
