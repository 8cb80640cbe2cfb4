#include "views/panels/panels.h"

#include "views/panels/captured/guards_panel.h"
#include "views/panels/changes_panel.h"
#include "views/panels/compile/code_panel.h"
#include "views/panels/compile/kernels_panel.h"
#include "views/panels/explorer.h"
#include "views/panels/history_panel.h"
#include "views/panels/inspector.h"
#include "views/panels/rules/library_panel.h"
#include "views/panels/rules/pattern_panel.h"
#include "views/panels/rules/rules_panel.h"
#include "views/panels/run/run_panel.h"
#include "views/panels/run/side_by_side_panel.h"

namespace graft {

const std::vector<PanelDescription>& panels() {
  static const std::vector<PanelDescription> all{
      explorerPanel(), rulesPanel(), libraryPanel(), inspectorPanel(),  patternPanel(), historyPanel(),
      changesPanel(),  runPanel(),   guardsPanel(),  sideBySidePanel(), kernelsPanel(), codePanel(),
  };
  return all;
}

}  // namespace graft
