// A column that takes what the others leave of a table's width; where that is too little, the table scrolls.
//
//   fitColumn(*tree, Why, 260);
#pragma once

#include <QHeaderView>
#include <QTreeView>
#include <algorithm>

namespace graft {

/// `least`: pixels. The column's resize mode is Fixed, so that nothing else sets its width.
inline void fitColumn(QTreeView& table, int column, int least) {
  QHeaderView& header = *table.header();
  int others = 0;  // hidden ones have none
  for (int i = 0; i < header.count(); ++i)
    if (i != column) others += header.sectionSize(i);
  header.resizeSection(column, std::max(least, table.viewport()->width() - others));
}

}  // namespace graft
