// Breadcrumb: the way from the model down to what is selected, below the drawing. Each part is a link. It never asks
// for room: where it is too narrow, the modules behind the model's name give way first.
//
//   breadcrumb->show(*document.graph(), key);  connect(breadcrumb, &Breadcrumb::chosen, …);
#pragma once

#include <QLabel>
#include <optional>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

class Breadcrumb : public QLabel {
  Q_OBJECT

 public:
  explicit Breadcrumb(QWidget* parent = nullptr);
  /// `key`: the selection key of a node, module or input; empty: the model alone.
  void show(const Graph& graph, const QString& key);
  /// The names that are shown, from the model on; "…" for those that are not.
  QStringList shown() const { return shown_; }

 Q_SIGNALS:
  void chosen(const QString& path);  ///< a module's; empty: the whole model

 protected:
  void resizeEvent(QResizeEvent*) override;

 private:
  struct Part {
    QString name;
    std::optional<QString> path;  ///< of a link
  };
  void refresh();
  std::vector<Part> parts_;
  QStringList shown_;
};

}  // namespace graft
