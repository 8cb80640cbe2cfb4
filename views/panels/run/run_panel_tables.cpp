// The run panel's tables and plots, filled from a run.
#include <algorithm>
#include <map>

#include "views/canvas/canvas_scene.h"
#include "views/document/graph_decode.h"
#include "views/document/run_figures.h"
#include "views/panels/run/run_panel.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

/// A cell that sorts and aligns as the number it is.
class NumberItem : public QTableWidgetItem {
 public:
  NumberItem(double value, const QString& text) : QTableWidgetItem(text), value_(value) {
    setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
  }
  bool operator<(const QTableWidgetItem& other) const override {
    const auto* n = dynamic_cast<const NumberItem*>(&other);
    return n ? value_ < n->value_ : QTableWidgetItem::operator<(other);
  }

 private:
  double value_;
};

void setVerdict(QTableWidget* table, int row, int column, bool passed, const QString& why) {
  auto* item = new QTableWidgetItem(passed ? RunPanel::tr("✓ agrees") : RunPanel::tr("✗ %1").arg(why));
  item->setForeground(toQt(themePalette().change(passed ? Change::Added : Change::Removed)));
  item->setToolTip(why);
  table->setItem(row, column, item);
}

}  // namespace

void RunPanel::fillOutputs(const QJsonObject& run) {
  QTableWidget* t = tables_[Outputs];
  const QJsonArray outputs = at(run, "outputs").toArray();
  t->setRowCount(static_cast<int>(outputs.size()));
  for (int i = 0; i < t->rowCount(); ++i) {
    const QJsonObject o = outputs[i].toObject();
    t->setItem(i, 0, new QTableWidgetItem(at(o, "name").toString()));
    t->setItem(i, 1, new QTableWidgetItem(at(o, "type").toString()));
    int column = 2;
    for (const char* key : {"maxAbs", "maxRel", "rmse", "rmseRatio"})
      t->setItem(i, column++, new QTableWidgetItem(small(number(at(o, key)))));
    const double cosine = number(at(o, "cosine"));
    t->setItem(i, 6, new QTableWidgetItem(std::isnan(cosine) ? small(cosine) : QString::number(cosine, 'f', 6)));
    setVerdict(t, i, 7, at(o, "passed").toBool(), at(o, "why").toString());
    if (at(o, "nothingCompared").toBool()) t->item(i, 7)->setText(RunPanel::tr("nothing compared"));
  }
  if (t->currentRow() < 0 && t->rowCount() > 0) t->setCurrentCell(0, 0);
  showUlp();
}

void RunPanel::showUlp() {
  const QJsonArray outputs = at(document_.lastRun(), "outputs").toArray();
  const int row = std::max(0, tables_[Outputs]->currentRow());
  const QJsonObject o = row < outputs.size() ? outputs[row].toObject() : QJsonObject();
  ulp_->setCounts(
      o.isEmpty() ? QString() : tr("Output %1: elements by units in the last place").arg(at(o, "name").toString()),
      at(o, "ulpHistogram").toArray());
}

void RunPanel::fillInside(const QJsonObject& run) {
  QTableWidget* t = tables_[Inside];
  const QJsonArray layers = at(run, "layers").toArray();
  t->setRowCount(static_cast<int>(layers.size()));
  t->setCurrentCell(-1, -1);
  int first = -1, failed = 0;
  for (int i = 0; i < t->rowCount(); ++i) {
    const QJsonObject o = layers[i].toObject();
    const bool passed = at(o, "passed").toBool();
    auto* node = new QTableWidgetItem(at(o, "rewritten").toString());
    node->setData(Qt::UserRole, at(o, "rewritten").toString());
    t->setItem(i, 0, node);
    t->setItem(i, 1, new QTableWidgetItem(at(o, "original").toString()));
    t->setItem(i, 2, new QTableWidgetItem(at(o, "type").toString()));
    int column = 3;
    for (const char* key : {"maxAbs", "rmse", "rmseRatio"})
      t->setItem(i, column++, new QTableWidgetItem(small(number(at(o, key)))));
    setVerdict(t, i, 6, passed, at(o, "why").toString());
    if (!passed && ++failed == 1) first = i;
  }
  if (layers.isEmpty()) {
    insideHead_->setText(tr("Tick “Inside” and run to compare the values inside."));
  } else if (first < 0) {
    insideHead_->setText(tr("All %1 corresponding values inside agree.").arg(layers.size()));
  } else {
    const QString node = at(layers[first].toObject(), "rewritten").toString();
    insideHead_->setText(tr("The numbers first differ at <a href=\"%1\">%1</a>: %2. In all, %3 of %4 values differ.")
                             .arg(node.toHtmlEscaped(), at(layers[first].toObject(), "why").toString().toHtmlEscaped())
                             .arg(failed)
                             .arg(layers.size()));
    t->setCurrentCell(first, 0);
    showFirstDifference();
  }
}

/// A table that is not shown cannot be scrolled: done again when its tab is.
void RunPanel::showFirstDifference() {
  QTableWidget* t = tables_[Inside];
  if (t->currentRow() >= 0) t->scrollToItem(t->item(t->currentRow(), 0), QAbstractItemView::PositionAtCenter);
}

void RunPanel::fillOperators(const QJsonObject& run) {
  struct Sum {
    double calls[2] = {}, us[2] = {};
    QString dearest;  ///< the node of the rewritten model that takes longest
    double most = -1;
  };
  std::map<QString, Sum> sums;
  for (const int side : {0, 1}) {
    const char* name = side == 0 ? "original" : "rewritten";
    const QJsonObject calls = objectAt(objectAt(run, "calls"), name),
                      times = objectAt(objectAt(run, "nodeTimes"), name);
    for (auto it = calls.begin(); it != calls.end(); ++it) sums[it.key()].calls[side] += it->toDouble();
    const GraphRef g = document_.ranGraph(side);
    if (!g) continue;
    for (const NodeId id : g->order()) {
      const QString node = toQt(g->node(id).name);
      if (!times.contains(node)) continue;
      Sum& s = sums[toQt(g->node(id).op->name)];
      const double us = times.value(node).toDouble();
      s.us[side] += us;
      if (side == 1 && us > s.most) s.most = us, s.dearest = node;
    }
  }
  QTableWidget* t = tables_[Operators];
  t->setSortingEnabled(false);
  t->setRowCount(static_cast<int>(sums.size()));
  int row = 0;
  for (const auto& [name, s] : sums) {
    auto* first = new QTableWidgetItem(name);
    first->setData(Qt::UserRole, s.dearest);
    t->setItem(row, 0, first);
    for (const int side : {0, 1}) {
      t->setItem(
          row, 1 + side,
          new NumberItem(s.calls[side], s.calls[side] > 0 ? QString::number(s.calls[side]) : QStringLiteral("–")));
      t->setItem(
          row, 3 + side,
          new NumberItem(s.us[side], s.us[side] > 0 ? QString::number(s.us[side], 'f', 1) : QStringLiteral("–")));
    }
    const double change = s.us[1] - s.us[0];
    t->setItem(row, 5,
               new NumberItem(change, (change >= 0 ? QStringLiteral("+") : QStringLiteral("−")) +
                                          QString::number(std::abs(change), 'f', 1) + QStringLiteral(" µs")));
    ++row;
  }
  t->setSortingEnabled(true);
  t->sortByColumn(3, Qt::DescendingOrder);
}

void RunPanel::fillTimeline(const QJsonObject& run) {
  auto spans = [&](const GraphRef& g, const char* side) {
    std::vector<TimelinePlot::Span> out;
    const QJsonObject times = objectAt(objectAt(run, "nodeTimes"), side);
    double start = 0;
    if (!g) return out;
    for (const NodeId id : g->order()) {
      const Node& n = g->node(id);
      // Nodes in blocks are in their owner's time.
      if (g->block(n.parent).owner || !times.contains(toQt(n.name))) continue;
      const double us = times.value(toQt(n.name)).toDouble();
      out.push_back({toQt(n.name), toQt(n.op->baseName()) + QLatin1Char(' ') + toQt(g->scopeOf(id)),
                     kindOfOperator(n.op->name), start, us});
      start += us;
    }
    return out;
  };
  timeline_->setSpans(spans(document_.ranGraph(0), "original"), spans(document_.ranGraph(1), "rewritten"));
}

void RunPanel::fillSweep() {
  QTableWidget* t = tables_[Sweep];
  tabs_->setTabVisible(Sweep, !sweep_.empty());
  t->setRowCount(static_cast<int>(sweep_.size()));
  std::vector<SweepPlot::Point> points;
  for (int i = 0; i < t->rowCount(); ++i) {
    const auto& [label, run] = sweep_[i];
    const double a = median(run, "original"), b = median(run, "rewritten");
    double worst = 0;
    for (const QJsonValue v : at(run, "outputs").toArray()) worst = std::max(worst, number(at(v.toObject(), "maxAbs")));
    points.push_back({label, a, b});
    t->setItem(i, 0, new QTableWidgetItem(label));
    t->setItem(i, 1, new NumberItem(a, ms(a)));
    t->setItem(i, 2, new NumberItem(b, ms(b)));
    const double ratio = ratioOf(run);
    const RatioRange range = ratioRangeOf(run);
    auto* cell = new NumberItem(ratio, timesText(ratio, range));
    cell->setToolTip(tr("%1 to %2 times as fast, as far as these runs can tell")
                         .arg(range.low, 0, 'f', 2)
                         .arg(range.high, 0, 'f', 2));
    t->setItem(i, 3, cell);
    t->setItem(i, 4, new NumberItem(worst, small(worst)));
    setVerdict(t, i, 5, !at(run, "passed").isBool() || at(run, "passed").toBool(), at(run, "why").toString());
  }
  sweepPlot_->setPoints(std::move(points));
}

}  // namespace graft
