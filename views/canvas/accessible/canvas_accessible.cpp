#include "views/canvas/accessible/canvas_accessible.h"

#include <QAccessibleWidget>
#include <QCoreApplication>
#include <QPointer>
#include <QWindow>
#include <algorithm>

#include "views/canvas/canvas.h"
#include "views/canvas/hover_card.h"
#include "views/document/graph_decode.h"

namespace graft {
namespace {

QString accessibleWords(const char* text) { return QCoreApplication::translate("CanvasAccessible", text); }

QStringList withoutEmpty(QStringList words) {
  words.removeAll(QString());
  return words;
}

/// A sign in a box is no word: "matmul", not "@".
QString plainTitle(const Scene& scene, const Box& box) {
  return box.node && box.fold == Fold::None && box.kind != BoxKind::Module
             ? toQt(scene.graph->node(box.node).op->baseName())
             : toQt(box.title);
}

/// "linear, linear_3, module encoder.layer.0, output 1×128×768 f32".
QString boxName(const Scene& scene, const Box& box) {
  const Graph& graph = *scene.graph;
  const QString title = plainTitle(scene, box);
  const QString repeat =
      box.repeat > 1 ? accessibleWords("stands for %1").arg(static_cast<qint64>(box.repeat)) : QString();
  if (box.kind == BoxKind::Input || box.kind == BoxKind::Output) {
    const QString kind = box.kind == BoxKind::Input ? accessibleWords("input") : accessibleWords("output");
    const QString type = box.repeat == 1 ? toQt(typeLabel(graph.value(box.value).type)) : toQt(box.detail);
    return withoutEmpty({kind + QLatin1Char(' ') + title, type, repeat}).join(QStringLiteral(", "));
  }
  const QString own = toQt(box.name);
  QString module, type;
  if (box.module)
    module = toQt(graph.moduleCall(box.module).path);
  else if (box.node)
    module = toQt(graph.scopeOf(box.node));
  if (!module.isEmpty()) module = accessibleWords("module %1").arg(module);
  if (box.node && box.fold == Fold::None && box.kind != BoxKind::Module) {
    QStringList types;
    for (const ValueId v : graph.node(box.node).outputs) types << toQt(typeLabel(graph.value(v).type));
    types = withoutEmpty(types);
    if (!types.isEmpty()) type = accessibleWords("output %1").arg(types.join(QStringLiteral(", ")));
  } else {
    type = toQt(box.detail);
  }
  return withoutEmpty({title, own == title ? QString() : own, module, type, repeat}).join(QStringLiteral(", "));
}

QString shortName(const Scene& scene, int box) {
  const Box& b = scene.view.boxes[static_cast<size_t>(box)];
  return b.node && b.fold == Fold::None ? toQt(scene.graph->node(b.node).name) : toQt(b.title);
}

bool opens(const Box& box) { return box.kind == BoxKind::Module || box.open || !box.children.empty(); }

class CanvasAccessible;

/// A box or an edge.
class PartAccessible : public QAccessibleInterface, public QAccessibleActionInterface {
 public:
  explicit PartAccessible(Canvas& canvas) : canvas_(&canvas) {}
  bool isValid() const override { return canvas_ && canvas_->scene() && isThere(); }
  QObject* object() const override { return nullptr; }
  QWindow* window() const override { return canvas_ ? canvas_->window()->windowHandle() : nullptr; }
  void setText(QAccessible::Text, const QString&) override {}
  void* interface_cast(QAccessible::InterfaceType type) override {
    return type == QAccessible::ActionInterface ? static_cast<QAccessibleActionInterface*>(this) : nullptr;
  }
  QString localizedActionDescription(const QString& name) const override { return name; }
  QStringList keyBindingsForAction(const QString&) const override { return {}; }
  QAccessibleInterface* focusChild() const override { return nullptr; }

 protected:
  virtual bool isThere() const = 0;
  CanvasAccessible* drawing() const;
  QRect onScreen(const QRectF& inScene) const {
    const QPointF corner = canvas_->toWidget(inScene.topLeft());
    const QRect r = QRectF(corner, inScene.size() * canvas_->scale()).toAlignedRect();
    return {canvas_->mapToGlobal(r.topLeft()), r.size()};
  }
  QAccessible::State stateOf(const QRectF& inScene, bool isSelected) const {
    QAccessible::State state;
    state.selectable = state.focusable = true;
    state.selected = isSelected;
    state.focused = isSelected && canvas_->hasFocus();
    state.offscreen = !canvas_->visibleSceneRect().intersects(inScene);
    state.invisible = !canvas_->isVisible();
    return state;
  }

  QPointer<Canvas> canvas_;
};

class BoxAccessible final : public PartAccessible {
 public:
  BoxAccessible(Canvas& canvas, QString key) : PartAccessible(canvas), key_(std::move(key)) {}
  QAccessibleInterface* parent() const override;
  QAccessibleInterface* child(int index) const override;
  int childCount() const override { return isValid() && box().open ? static_cast<int>(box().children.size()) : 0; }
  int indexOfChild(const QAccessibleInterface* part) const override;
  QAccessibleInterface* childAt(int x, int y) const override;
  QAccessible::Role role() const override {
    return isValid() && opens(box()) ? QAccessible::TreeItem : QAccessible::Graphic;
  }
  QRect rect() const override { return isValid() ? onScreen(scene().rect(index())) : QRect(); }
  QString text(QAccessible::Text text) const override {
    if (!isValid()) return {};
    if (text == QAccessible::Name) return boxName(scene(), box());
    if (text == QAccessible::Description) return cardOf(scene(), index()).plain();
    return {};
  }
  QAccessible::State state() const override {
    if (!isValid()) {
      QAccessible::State gone;
      gone.invalid = true;
      return gone;
    }
    QAccessible::State state = stateOf(scene().rect(index()), canvas_->selection().contains(key_));
    state.expandable = opens(box());
    state.expanded = box().open;
    state.collapsed = state.expandable && !box().open;
    return state;
  }
  QStringList actionNames() const override {
    if (!isValid()) return {};
    QStringList names{select()};
    if (opens(box())) names << (box().open ? close() : open());
    if (box().repeat > 1) names << showEach();
    return names;
  }
  void doAction(const QString& name) override {
    if (!isValid() || !actionNames().contains(name)) return;
    if (name == select())
      canvas_->reveal(key_);
    else if (name == showEach())
      canvas_->unfold(index());
    else
      canvas_->toggle(index());
  }
  const QString& key() const { return key_; }

 private:
  bool isThere() const override { return canvas_->scene()->boxOfKey.contains(key_); }
  const Scene& scene() const { return *canvas_->scene(); }
  int index() const { return scene().boxOfKey.value(key_, -1); }
  const Box& box() const { return scene().view.boxes[static_cast<size_t>(index())]; }
  static QString select() { return accessibleWords("Select"); }
  static QString open() { return accessibleWords("Open"); }
  static QString close() { return accessibleWords("Close"); }
  static QString showEach() { return accessibleWords("Show each"); }

  QString key_;
};

class EdgeAccessible final : public PartAccessible {
 public:
  EdgeAccessible(Canvas& canvas, int edge) : PartAccessible(canvas), scene_(canvas.scene()), edge_(edge) {}
  QAccessibleInterface* parent() const override;
  QAccessibleInterface* child(int) const override { return nullptr; }
  int childCount() const override { return 0; }
  int indexOfChild(const QAccessibleInterface*) const override { return -1; }
  QAccessibleInterface* childAt(int, int) const override { return nullptr; }
  QAccessible::Role role() const override { return QAccessible::Graphic; }
  QRect rect() const override { return isValid() ? onScreen(path()) : QRect(); }
  QString text(QAccessible::Text text) const override {
    if (!isValid() || text != QAccessible::Name) return {};
    const Scene& s = *canvas_->scene();
    const QString name = accessibleWords("edge from %1 to %2").arg(shortName(s, edge().from), shortName(s, edge().to));
    return withoutEmpty({name, toQt(edge().label)}).join(QStringLiteral(", "));
  }
  QAccessible::State state() const override { return isValid() ? stateOf(path(), false) : QAccessible::State(); }
  QStringList actionNames() const override { return {accessibleWords("Select both ends")}; }
  void doAction(const QString&) override {
    if (!isValid()) return;
    QStringList ends;
    for (const int box : {edge().from, edge().to})
      ends << selectionKey(*canvas_->scene()->graph, canvas_->scene()->view.boxes[static_cast<size_t>(box)]);
    Q_EMIT canvas_->selectionEdited(ends);
  }
  int number() const { return edge_; }

 private:
  bool isThere() const override { return canvas_->scene() == scene_.lock(); }
  const VisibleEdge& edge() const { return canvas_->scene()->view.edges[static_cast<size_t>(edge_)]; }
  QRectF path() const { return canvas_->scene()->wholePath(edge_).boundingRect(); }

  std::weak_ptr<const Scene> scene_;
  int edge_;
};

class CanvasAccessible final : public QAccessibleWidget {
 public:
  explicit CanvasAccessible(Canvas& canvas) : QAccessibleWidget(&canvas, QAccessible::Canvas), canvas_(canvas) {}
  ~CanvasAccessible() override { forget(true); }

  /// By its number in the scene.
  QAccessibleInterface* box(int number) {
    const Scene& scene = *canvas_.scene();
    const QString key = selectionKey(*scene.graph, scene.view.boxes[static_cast<size_t>(number)]);
    const auto known = boxes_.constFind(key);
    if (known != boxes_.constEnd()) return QAccessible::accessibleInterface(*known);
    auto* part = new BoxAccessible(canvas_, key);
    boxes_.insert(key, QAccessible::registerAccessibleInterface(part));
    return part;
  }
  QAccessibleInterface* boxAt(int x, int y) {
    if (!canvas_.scene()) return nullptr;
    const int at = canvas_.scene()->boxAt(canvas_.toScene(canvas_.mapFromGlobal(QPoint(x, y))));
    return at >= 0 ? box(at) : nullptr;
  }

  int childCount() const override { return rootCount() + edgeCount() + QAccessibleWidget::childCount(); }
  QAccessibleInterface* child(int index) const override {
    auto* self = const_cast<CanvasAccessible*>(this);  // what it has said of a part, it says again
    if (index < 0) return nullptr;
    if (index < rootCount()) return self->box(canvas_.scene()->view.roots[static_cast<size_t>(index)]);
    index -= rootCount();
    if (index < edgeCount()) return self->edge(index);
    return QAccessibleWidget::child(index - edgeCount());
  }
  int indexOfChild(const QAccessibleInterface* part) const override {
    if (const auto* b = dynamic_cast<const BoxAccessible*>(part)) {
      const auto& roots = canvas_.scene() ? canvas_.scene()->view.roots : none_;
      const auto at = std::find(roots.begin(), roots.end(), numberOf(*b));
      return at == roots.end() ? -1 : static_cast<int>(at - roots.begin());
    }
    if (const auto* e = dynamic_cast<const EdgeAccessible*>(part)) return e->isValid() ? rootCount() + e->number() : -1;
    const int own = QAccessibleWidget::indexOfChild(part);
    return own < 0 ? -1 : rootCount() + edgeCount() + own;
  }
  QAccessibleInterface* childAt(int x, int y) const override {
    QAccessibleInterface* over = QAccessibleWidget::childAt(x, y);  // what lies over the drawing
    return over ? over : const_cast<CanvasAccessible*>(this)->boxAt(x, y);
  }
  QAccessibleInterface* focusChild() const override {
    if (!canvas_.hasFocus() || !canvas_.scene()) return QAccessibleWidget::focusChild();
    const int selected = canvas_.scene()->boxOfKey.value(canvas_.selection().value(0), -1);
    return selected < 0 ? QAccessibleWidget::focusChild() : const_cast<CanvasAccessible*>(this)->box(selected);
  }
  int numberOf(const BoxAccessible& part) const {
    return canvas_.scene() ? canvas_.scene()->boxOfKey.value(part.key(), -1) : -1;
  }
  /// What is no longer drawn; `all`: of what is, too.
  void forget(bool all) {
    for (const QAccessible::Id id : edges_) QAccessible::deleteAccessibleInterface(id);
    edges_.clear();
    for (auto it = boxes_.begin(); it != boxes_.end();) {
      if (!all && canvas_.scene() && canvas_.scene()->boxOfKey.contains(it.key())) {
        ++it;
        continue;
      }
      QAccessible::deleteAccessibleInterface(it.value());
      it = boxes_.erase(it);
    }
  }

 private:
  int rootCount() const { return canvas_.scene() ? static_cast<int>(canvas_.scene()->view.roots.size()) : 0; }
  int edgeCount() const { return canvas_.scene() ? static_cast<int>(canvas_.scene()->view.edges.size()) : 0; }
  QAccessibleInterface* edge(int number) {
    const auto known = edges_.constFind(number);
    if (known != edges_.constEnd()) {
      QAccessibleInterface* part = QAccessible::accessibleInterface(*known);
      if (part && part->isValid()) return part;
      QAccessible::deleteAccessibleInterface(*known);  // of the scene before
    }
    auto* part = new EdgeAccessible(canvas_, number);
    edges_.insert(number, QAccessible::registerAccessibleInterface(part));
    return part;
  }

  Canvas& canvas_;
  QHash<QString, QAccessible::Id> boxes_;  ///< by selection key
  QHash<int, QAccessible::Id> edges_;      ///< by number in the scene
  const std::vector<int> none_;
};

CanvasAccessible* PartAccessible::drawing() const {
  return canvas_ ? dynamic_cast<CanvasAccessible*>(QAccessible::queryAccessibleInterface(canvas_)) : nullptr;
}

QAccessibleInterface* BoxAccessible::parent() const {
  CanvasAccessible* all = drawing();
  if (!all || !isValid() || box().parent < 0) return all;
  return all->box(box().parent);
}

QAccessibleInterface* BoxAccessible::child(int number) const {
  CanvasAccessible* all = drawing();
  if (!all || number < 0 || number >= childCount()) return nullptr;
  return all->box(box().children[static_cast<size_t>(number)]);
}

int BoxAccessible::indexOfChild(const QAccessibleInterface* part) const {
  const auto* inside = dynamic_cast<const BoxAccessible*>(part);
  CanvasAccessible* all = drawing();
  if (!inside || !all || !isValid()) return -1;
  const auto at = std::find(box().children.begin(), box().children.end(), all->numberOf(*inside));
  return at == box().children.end() ? -1 : static_cast<int>(at - box().children.begin());
}

QAccessibleInterface* BoxAccessible::childAt(int x, int y) const {
  CanvasAccessible* all = drawing();
  QAccessibleInterface* at = all ? all->boxAt(x, y) : nullptr;
  return at == this ? nullptr : at;
}

QAccessibleInterface* EdgeAccessible::parent() const { return drawing(); }

QAccessibleInterface* canvasInterface(const QString& className, QObject* object) {
  auto* canvas =
      className == QLatin1String(Canvas::staticMetaObject.className()) ? qobject_cast<Canvas*>(object) : nullptr;
  return canvas ? new CanvasAccessible(*canvas) : nullptr;
}

}  // namespace

void installCanvasAccessibility() { QAccessible::installFactory(canvasInterface); }

void tellSelection(Canvas& canvas) {
  if (!QAccessible::isActive() || !canvas.hasFocus() || !canvas.scene()) return;
  auto* all = dynamic_cast<CanvasAccessible*>(QAccessible::queryAccessibleInterface(&canvas));
  const int selected = canvas.scene()->boxOfKey.value(canvas.selection().value(0), -1);
  if (!all || selected < 0) return;
  QAccessibleEvent event(all->box(selected), QAccessible::Focus);
  QAccessible::updateAccessibility(&event);
}

void tellDrawing(Canvas& canvas) {
  if (!QAccessible::isActive()) return;
  auto* all = dynamic_cast<CanvasAccessible*>(QAccessible::queryAccessibleInterface(&canvas));
  if (!all) return;
  all->forget(false);
  QAccessibleEvent event(&canvas, QAccessible::ObjectReorder);
  QAccessible::updateAccessibility(&event);
}

}  // namespace graft
