// The report: one HTML page with the verdict of the last run, its plots and tables, the steps and how each was
// verified, what was replaced by what, a drawing of both models, the rules that were applied, and the machine.
#pragma once

#include <QString>

namespace graft {

class Document;
class RunPanel;

/// `depth`: how deep modules are open in the drawing, as in ViewOptions.
QString reportHtml(const Document& document, RunPanel& run, int depth);

}  // namespace graft
