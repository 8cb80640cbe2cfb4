// FileDrop: files dropped on a widget are opened. Without it a widget that takes text would insert their addresses.
//
//   new FileDrop(lineEdit, [this](const QString& path) { openModel(path); });
#pragma once

#include <QDropEvent>
#include <QMimeData>
#include <QUrl>
#include <QWidget>
#include <functional>

namespace graft {

class FileDrop : public QObject {
 public:
  /// Belongs to `on`.
  FileDrop(QWidget* on, std::function<void(const QString& path)> take) : QObject(on), take_(std::move(take)) {
    on->installEventFilter(this);
    on->setProperty(mark, true);
  }
  /// Whether the widget takes files already.
  static bool isOn(const QWidget& widget) { return widget.property(mark).toBool(); }

 protected:
  bool eventFilter(QObject*, QEvent* e) override {
    if (e->type() != QEvent::DragEnter && e->type() != QEvent::DragMove && e->type() != QEvent::Drop) return false;
    auto* drop = static_cast<QDropEvent*>(e);
    if (!drop->mimeData()->hasUrls()) return false;
    drop->acceptProposedAction();
    if (e->type() == QEvent::Drop)
      for (const QUrl& url : drop->mimeData()->urls())
        if (url.isLocalFile()) take_(url.toLocalFile());
    return true;
  }

 private:
  static constexpr const char* mark = "takesFiles";
  std::function<void(const QString&)> take_;
};

}  // namespace graft
