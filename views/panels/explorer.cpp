#include "views/panels/explorer.h"

#include <QHeaderView>
#include <QKeyEvent>
#include <QPainter>
#include <QRegularExpression>
#include <QStyledItemDelegate>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "views/canvas/canvas_scene.h"
#include "views/document/graph_decode.h"
#include "views/layout/visible_graph.h"
#include "views/widgets/empty_hint.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

constexpr int callRole = Qt::UserRole, filledRole = Qt::UserRole + 1, typeRole = Qt::UserRole + 2;

/// A module's name, then its type, dimmed; the name has the room first.
class ModuleDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  void paint(QPainter* p, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    QStyledItemDelegate::paint(p, option, index);
    const QString type = index.data(typeRole).toString();
    QStyleOptionViewItem o = option;
    initStyleOption(&o, index);
    constexpr int gap = 10;
    QRect room = o.widget->style()->subElementRect(QStyle::SE_ItemViewItemText, &o, o.widget);
    room.setLeft(room.left() + o.fontMetrics.horizontalAdvance(o.text) + gap);
    if (type.isEmpty() || room.width() < 4 * gap) return;
    p->setPen(toQt(themePalette().dim));
    p->drawText(room, Qt::AlignLeft | Qt::AlignVCenter, o.fontMetrics.elidedText(type, Qt::ElideRight, room.width()));
  }
};

/// What is looked for, as it was typed: words that all occur, "12x32" as "12×32", or an expression between slashes.
class Wanted {
 public:
  explicit Wanted(const QString& text) {
    isExpression_ = text.size() > 2 && text.startsWith(QLatin1Char('/')) && text.endsWith(QLatin1Char('/'));
    if (isExpression_)
      expression_ = QRegularExpression(text.mid(1, text.size() - 2), QRegularExpression::CaseInsensitiveOption);
    static const QRegularExpression times(QStringLiteral("(?<=[0-9])x(?=[a-z]?[0-9])"));
    for (const QString& word : text.split(QLatin1Char(' '), Qt::SkipEmptyParts))
      words_.push_back({word, QString(word).replace(times, QStringLiteral("×"))});
  }
  /// Words may lie in different fields; an expression fits one of them, so that ^ and $ are its ends, or all in a line.
  bool fits(const QStringList& fields) const {
    const QString line = fields.join(QLatin1Char(' '));
    if (isExpression_)
      return expression_.isValid() && (expression_.match(line).hasMatch() ||
                                       std::any_of(fields.begin(), fields.end(), [&](const QString& field) {
                                         return expression_.match(field).hasMatch();
                                       }));
    return !words_.empty() && std::all_of(words_.begin(), words_.end(), [&](const auto& word) {
      return line.contains(word.first, Qt::CaseInsensitive) || line.contains(word.second, Qt::CaseInsensitive);
    });
  }
  QString error() const { return isExpression_ && !expression_.isValid() ? expression_.errorString() : QString(); }

 private:
  bool isExpression_ = false;
  QRegularExpression expression_;
  std::vector<std::pair<QString, QString>> words_;  ///< as typed, and as sizes are written
};

}  // namespace

std::vector<std::pair<QString, QString>> findInGraph(const Graph& graph, const QString& text, int most) {
  std::vector<std::pair<QString, QString>> out;
  const Wanted wanted(text);
  auto full = [&] { return static_cast<int>(out.size()) >= most; };
  for (ValueId v : graph.inputs()) {
    const QString name = toQt(graph.value(v).name), type = toQt(typeLabel(graph.value(v).type));
    if (wanted.fits({name, QStringLiteral("input"), type}))
      out.emplace_back(QLatin1Char('<') + name, name + QStringLiteral("   input   ") + type);
  }
  const std::vector<char> backward = backwardModules(graph);
  for (const ModuleCall& m : graph.moduleCalls()) {
    if (full()) return out;
    const QString key = toQt(moduleKey(graph, m.id, backward)), type = toQt(m.shortType());
    if (wanted.fits({toQt(m.path), type})) out.emplace_back(QLatin1Char('@') + key, key + QStringLiteral("   ") + type);
  }
  for (const NodeId id : graph.order()) {
    if (full()) return out;
    const Node& node = graph.node(id);
    const QStringList names{toQt(node.name), toQt(node.op->name), toQt(graph.scopeOf(id))};
    QStringList fields = names, types;
    for (ValueId v : node.outputs) {
      types << toQt(typeLabel(graph.value(v).type));
      fields << types.last() << toQt(toString(graph.value(v).type));
    }
    if (!wanted.fits(fields)) continue;
    // Found by its type, the line tells that.
    types.removeAll(QString());
    const bool byType = !types.isEmpty() && !wanted.fits(names);
    out.emplace_back(
        names[0],
        QStringList{names[0], toQt(node.op->packetName()), byType ? types.join(QStringLiteral(", ")) : names[2]}.join(
            QStringLiteral("   ")));
  }
  return out;
}

QString findError(const QString& text) { return Wanted(text).error(); }

Explorer::Explorer(QWidget* parent) : QWidget(parent) {
  search_ = new QLineEdit(this);
  search_->setAccessibleName(tr("Find in the graph"));
  search_->setPlaceholderText(tr("Find: name, operator, shape, /regex/"));
  search_->setClearButtonEnabled(true);
  find_ = search_->addAction(icon(QStringLiteral("find")), QLineEdit::LeadingPosition);
  tree_ = new QTreeWidget(this);
  tree_->setAccessibleName(tr("Modules"));
  tree_->setHeaderLabels({tr("Module"), tr("Nodes")});
  tree_->setUniformRowHeights(true);
  new EmptyHint(tree_, tr("The model has no modules."));
  tree_->setItemDelegateForColumn(0, new ModuleDelegate(tree_));
  tree_->header()->setSectionResizeMode(0, QHeaderView::Stretch);
  tree_->header()->setSectionResizeMode(1, QHeaderView::ResizeToContents);
  tree_->header()->setStretchLastSection(false);
  results_ = new QListWidget(this);
  results_->setAccessibleName(tr("What was found"));
  results_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  results_->setTextElideMode(Qt::ElideMiddle);
  stack_ = new QStackedWidget(this);
  stack_->addWidget(tree_);
  stack_->addWidget(results_);
  numbersTable_ = new QTreeWidget(this);
  numbersTable_->setAccessibleName(tr("Numbers of nodes"));
  numbersTable_->setUniformRowHeights(true);
  numbersTable_->setRootIsDecorated(false);
  numbersTable_->setColumnCount(2);
  numbersTable_->header()->setSectionResizeMode(0, QHeaderView::Stretch);
  numbersTable_->header()->setSectionResizeMode(1, QHeaderView::ResizeToContents);
  numbersTable_->header()->setStretchLastSection(false);
  numbersTable_->hide();
  notInTable_ = new QLabel(this);
  notInTable_->setWordWrap(true);
  notInTable_->hide();
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(8, 8, 8, 8);
  column->addWidget(search_);
  column->addWidget(stack_, 1);
  column->addWidget(numbersTable_, 1);
  column->addWidget(notInTable_);
  search_->setToolTip(tr("Return and ↓ go to the next result, ↑ to the previous one, Esc ends the search"));
  search_->installEventFilter(this);
  connect(search_, &QLineEdit::textChanged, this, &Explorer::find);
  connect(search_, &QLineEdit::returnPressed, this, [this] { step(1); });
  connect(results_, &QListWidget::currentItemChanged, this, [this](QListWidgetItem* item) {
    if (item && !quiet_) Q_EMIT chosen(item->data(Qt::UserRole).toString());
  });
  connect(tree_, &QTreeWidget::itemExpanded, this, [this](QTreeWidgetItem* item) {
    if (item->data(0, filledRole).toBool()) return;
    item->setData(0, filledRole, true);
    fill(item, ModuleCallId(item->data(0, callRole).toUInt()));
  });
  connect(tree_, &QTreeWidget::currentItemChanged, this, [this](QTreeWidgetItem* item) {
    if (item && !quiet_ && graph_) Q_EMIT chosen(QLatin1Char('@') + keyOf(item));
  });
  connect(numbersTable_, &QTreeWidget::currentItemChanged, this, [this](QTreeWidgetItem* item) {
    if (item && !quiet_) Q_EMIT chosen(item->text(0));
  });
}

bool Explorer::eventFilter(QObject* object, QEvent* e) {
  if (e->type() == QEvent::KeyPress && !search_->text().isEmpty()) {
    const int key = static_cast<QKeyEvent*>(e)->key();
    if (key == Qt::Key_Down || key == Qt::Key_Up) return step(key == Qt::Key_Down ? 1 : -1), true;
  }
  if (e->type() == QEvent::KeyPress && static_cast<QKeyEvent*>(e)->key() == Qt::Key_Escape) {
    search_->clear();
    Q_EMIT left();
    return true;
  }
  return QWidget::eventFilter(object, e);
}

void Explorer::step(int by) {
  int found = results_->count();
  while (found > 0 && !(results_->item(found - 1)->flags() & Qt::ItemIsEnabled)) --found;  // remarks, not results
  const int row = results_->currentRow();
  if (found > 0) results_->setCurrentRow(row < 0 && by < 0 ? found - 1 : (row + by + found) % found);
}

void Explorer::refreshTheme() {
  find_->setIcon(icon(QStringLiteral("find")));
  const QColor dim = toQt(themePalette().dim);
  for (QTreeWidgetItemIterator it(tree_); *it; ++it) (*it)->setForeground(1, dim);
  for (int i = 0; i < results_->count(); ++i)
    if (results_->item(i)->flags() == Qt::NoItemFlags) results_->item(i)->setForeground(dim);
}

void Explorer::setGraph(std::shared_ptr<const Graph> graph) {
  if (graph == graph_) return;
  // What was open stays open: a rewrite changes little of the tree.
  QStringList open;
  for (QTreeWidgetItemIterator it(tree_); *it && graph_; ++it)
    if ((*it)->isExpanded()) open << keyOf(*it);
  graph_ = std::move(graph);
  quiet_ = true;
  tree_->clear();
  children_.clear();
  if (graph_) {
    const auto calls = graph_->moduleCalls();
    backward_ = backwardModules(*graph_);
    counts_.assign(calls.size(), 0);
    for (const NodeId id : graph_->order())
      for (ModuleCallId m = graph_->node(id).module; m; m = graph_->moduleCall(m).parent) ++counts_[m.index];
    children_.resize(calls.size() + 1);
    for (const ModuleCall& m : calls)
      if (counts_[m.id.index] > 0) children_[m.parent ? m.parent.index + 1 : 0].push_back(m.id);
    fill(tree_->invisibleRootItem(), {});
    if (tree_->topLevelItemCount() <= 6)
      for (int i = 0; i < tree_->topLevelItemCount(); ++i) tree_->topLevelItem(i)->setExpanded(true);
    for (QTreeWidgetItemIterator it(tree_); *it && !open.isEmpty(); ++it)
      if (open.removeAll(keyOf(*it)) > 0) (*it)->setExpanded(true);  // outer ones come first
  }
  quiet_ = false;
  find();
  fillNumbers();
}

void Explorer::setNumbers(const QString& title, const QMap<QString, double>& values) {
  numbersTitle_ = title;
  numbers_ = values;
  fillNumbers();
}

void Explorer::fillNumbers() {
  std::vector<std::pair<QString, double>> rows;
  for (const auto& [name, value] : numbers_.asKeyValueRange())
    if (graph_ && graph_->findNode(name.toStdString())) rows.emplace_back(name, value);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.second) > std::abs(b.second); });
  quiet_ = true;
  numbersTable_->clear();
  numbersTable_->setHeaderLabels({tr("Node"), numbersTitle_});
  const size_t shown = std::min(rows.size(), static_cast<size_t>(mostFound));
  for (size_t i = 0; i < shown; ++i) {
    const auto& [name, value] = rows[i];
    auto* item = new QTreeWidgetItem(numbersTable_, {name, heatText(value, {})});
    item->setToolTip(0, name);
    item->setTextAlignment(1, Qt::AlignRight | Qt::AlignVCenter);
  }
  quiet_ = false;
  QStringList remarks;
  if (shown < rows.size()) remarks << tr("These are the first %1; there are more").arg(shown);
  if (const size_t lost = static_cast<size_t>(numbers_.size()) - rows.size(); lost > 0)
    remarks << tr("%1 of %2 names are of no node here.").arg(lost).arg(numbers_.size());
  notInTable_->setText(remarks.join(QLatin1Char('\n')));
  numbersTable_->setVisible(!numbers_.isEmpty());
  notInTable_->setVisible(!remarks.isEmpty());
}

void Explorer::markNumber(const QString& key) {
  const QList<QTreeWidgetItem*> items = numbersTable_->findItems(key, Qt::MatchExactly | Qt::MatchCaseSensitive);
  quiet_ = true;
  numbersTable_->setCurrentItem(items.value(0));
  quiet_ = false;
}

QString Explorer::keyOf(const QTreeWidgetItem* item) const {
  return toQt(moduleKey(*graph_, ModuleCallId(item->data(0, callRole).toUInt()), backward_));
}

void Explorer::fill(QTreeWidgetItem* parent, ModuleCallId of) {
  const QColor dim = toQt(themePalette().dim);
  for (const ModuleCallId id : children_[of ? of.index + 1 : 0]) {
    const ModuleCall& m = graph_->moduleCall(id);
    std::string_view outer = of ? std::string_view(graph_->moduleCall(of).path) : std::string_view();
    std::string_view own = m.path;
    if (!outer.empty() && own.starts_with(outer) && own.size() > outer.size()) own.remove_prefix(outer.size() + 1);
    auto* item = new QTreeWidgetItem(parent, {toQt(own), QString::number(counts_[id.index])});
    item->setData(0, callRole, id.index);
    const QString type = toQt(m.shortType());
    const bool isBackward = !backward_.empty() && backward_[id.index];
    item->setData(0, typeRole, isBackward ? tr("backward  %1").arg(type) : type);
    item->setToolTip(0, toQt(m.path) + QLatin1Char('\n') + toQt(m.type));
    item->setForeground(1, dim);
    item->setTextAlignment(1, Qt::AlignRight | Qt::AlignVCenter);
    if (!children_[id.index + 1].empty()) item->setChildIndicatorPolicy(QTreeWidgetItem::ShowIndicator);
  }
}

void Explorer::setSelection(const QStringList& keys) {
  markNumber(keys.value(0));
  if (keys.isEmpty() || !graph_) return;
  const QString& key = keys.first();
  ModuleCallId call;
  if (key.startsWith(QLatin1Char('@'))) {
    call = moduleOfKey(*graph_, key.mid(1).toStdString());
  } else if (const NodeId n = graph_->findNode(key.toStdString())) {
    call = graph_->node(n).module;  // two passes call modules of one path
  }
  if (!call) return;
  std::vector<uint32_t> way;
  for (; call; call = graph_->moduleCall(call).parent) way.push_back(call.index);
  quiet_ = true;
  QTreeWidgetItem* at = tree_->invisibleRootItem();
  for (; !way.empty(); way.pop_back()) {
    QTreeWidgetItem* next = nullptr;
    for (int i = 0; i < at->childCount() && !next; ++i)
      if (at->child(i)->data(0, callRole).toUInt() == way.back()) next = at->child(i);
    if (!next) break;
    at = next;
    if (way.size() > 1) at->setExpanded(true);
  }
  if (at != tree_->invisibleRootItem()) tree_->setCurrentItem(at);
  quiet_ = false;
}

void Explorer::find() {
  const QString text = search_->text().trimmed();
  stack_->setCurrentIndex(text.isEmpty() ? 0 : 1);
  quiet_ = true;
  results_->clear();
  if (!text.isEmpty() && graph_)
    for (const auto& [key, line] : findInGraph(*graph_, text)) {
      auto* item = new QListWidgetItem(line, results_);
      item->setData(Qt::UserRole, key);
      item->setToolTip(line);
    }
  if (results_->count() >= mostFound) {
    auto* item = new QListWidgetItem(tr("These are the first %1; there are more").arg(results_->count()), results_);
    item->setFlags(Qt::NoItemFlags);
    item->setForeground(toQt(themePalette().dim));
  }
  if (!text.isEmpty() && results_->count() == 0) {
    const QString error = findError(text);
    for (const QString& line : error.isEmpty()
                                   ? QStringList{tr("Nothing has this in its name,"), tr("operator, module or type.")}
                                   : QStringList{tr("This is not a regular expression:"), error}) {
      auto* item = new QListWidgetItem(line, results_);
      item->setToolTip(line);
      item->setFlags(Qt::NoItemFlags);
      item->setForeground(toQt(themePalette().dim));
    }
  }
  quiet_ = false;
}

PanelDescription explorerPanel() {
  PanelDescription d;
  d.name = QStringLiteral("explorer");
  d.title = Explorer::tr("Modules");
  d.help = Explorer::tr("Shows the module tree and finds nodes by name, operator, shape or expression");
  d.area = Qt::LeftDockWidgetArea;
  d.arrangements = {Arrangement::Explore};
  d.size = {270, 0};
  d.make = [](PanelContext& context) {
    auto* explorer = new Explorer;
    Document& document = context.document();
    QObject::connect(explorer, &Explorer::chosen, &context, &PanelContext::nodeAsked);
    QObject::connect(explorer, &Explorer::left, &context, &PanelContext::canvasAsked);
    QObject::connect(&context, &PanelContext::themeChanged, explorer, &Explorer::refreshTheme);
    QObject::connect(&context, &PanelContext::numbersChanged, explorer, &Explorer::setNumbers);
    QObject::connect(&document, &Document::opened, explorer->search(),
                     &QLineEdit::clear);  // it was about another model
    QObject::connect(&document, &Document::graphChanged, explorer, [explorer, &document] {
      explorer->setGraph(document.graph());
      explorer->setSelection(document.selection());
    });
    QObject::connect(&document, &Document::selectionChanged, explorer,
                     [explorer, &document] { explorer->setSelection(document.selection()); });
    return explorer;
  };
  return d;
}

}  // namespace graft
