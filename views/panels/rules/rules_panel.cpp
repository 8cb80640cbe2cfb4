#include "views/panels/rules/rules_panel.h"

#include <QJsonArray>

#include "views/document/graph_decode.h"
#include "views/layout/visible_graph.h"
#include "views/panels/rules/library_panel.h"
#include "views/panels/rules/matches_panel.h"
#include "views/panels/rules/rule_editor.h"
#include "views/panels/rules/rule_from_selection.h"
#include "views/panels/rules/why_not_panel.h"

namespace graft {
namespace {

/// The text that another rule can be put behind: as it is, or of an empty one the usual imports.
QString withImports(const QString& text) {
  if (!text.trimmed().isEmpty()) return text.trimmed();
  return QStringLiteral(
      "import torch\nimport torch.nn.functional as F\nfrom graft import Recipe, Rule, Tensor, Weight, any_of, kernels, "
      "optional");
}

/// The nodes among these keys, and those inside the modules among them.
QStringList nodesOf(const Graph& g, const QStringList& keys) {
  QStringList names;
  for (const QString& key : keys) {
    if (!key.startsWith(QLatin1Char('@'))) {
      names << key;
      continue;
    }
    const std::string path = key.mid(1).toStdString();
    const ModuleCallId module = moduleOfKey(g, path);
    const bool isOfOnePass = !backwardModules(g).empty();  // else a module that is called again is meant with all calls
    for (const NodeId id : g.order()) {
      const std::string_view scope = g.scopeOf(id);
      ModuleCallId around = g.node(id).module;
      while (around && around != module) around = g.moduleCall(around).parent;
      if (isOfOnePass ? bool(around) : scope == path || scope.starts_with(path + ".")) names << toQt(g.node(id).name);
    }
  }
  return names;
}

}  // namespace

RulesPanel::RulesPanel(PanelContext& context)
    : QSplitter(Qt::Vertical), context_(context), document_(context.document()) {
  editor_ = new RuleEditor(document_);
  matches_ = new MatchesPanel(document_);
  whyNot_ = new WhyNotPanel(document_);
  tabs_ = new QTabWidget;
  tabs_->setAccessibleName(tr("Matches, or why there are none"));
  tabs_->setDocumentMode(true);
  tabs_->addTab(matches_, tr("Matches"));
  tabs_->addTab(whyNot_, tr("Why not"));
  addWidget(editor_);
  addWidget(tabs_);
  setStretchFactor(0, 3);
  setStretchFactor(1, 2);
  setHandleWidth(1);
  setSizes({430, 350});
  connectParts();
}

void RulesPanel::connectParts() {
  connect(editor_, &RuleEditor::patternHovered, &context_, &PanelContext::lightPattern);
  connect(editor_, &RuleEditor::libraryAsked, this, [this] { Q_EMIT context_.actionAsked(QStringLiteral("library")); });
  connect(&context_, &PanelContext::patternLit, editor_, &RuleEditor::setLit);
  connect(&context_, &PanelContext::themeChanged, editor_, &RuleEditor::refreshTheme);
  connect(&context_, &PanelContext::ruleTaken, this, &RulesPanel::addRule);
  connect(&context_.engine(), &EngineClient::up, this, &RulesPanel::askWords);
  connect(matches_, &MatchesPanel::matchChosen, &context_, &PanelContext::matchAsked);
  connect(matches_, &MatchesPanel::matchHovered, &context_, &PanelContext::nodesLit);
  connect(matches_, &MatchesPanel::whyNotAsked, this,
          [this] { Q_EMIT context_.actionAsked(QStringLiteral("whyNot")); });
  connect(matches_, &MatchesPanel::ruleChosen, this, &RulesPanel::choose);
  connect(&document_, &Document::matchesChanged, this, &RulesPanel::chooseBest);
  connect(whyNot_, &WhyNotPanel::goThere, this, [this](const NearMissInfo& miss) {
    Q_EMIT context_.nodeAsked(miss.at);
    Q_EMIT context_.nodesLit(miss.map.values());
    Q_EMIT context_.patternLit(miss.patternNode);
  });
  connect(whyNot_, &WhyNotPanel::suggested, this, [this](const NearMissInfo& miss) {
    if (!editor_->change(miss.edits))
      Q_EMIT context_.failed(tr("The rule was not changed"),
                             tr("its text has changed since; Explain looks at the new text"));
  });
}

void RulesPanel::choose(const QString& name) {
  const RuleInfo* rule = document_.rule(name);
  if (rule && rule->line > 0) editor_->showLine(rule->line);  // imported rules have no line here
  document_.setCurrentRule(name);
}

void RulesPanel::chooseBest() {
  const RuleInfo* now = document_.rule(document_.currentRule());
  if (!wantsBest_ || !now || !now->matched) return;
  wantsBest_ = false;
  const RuleInfo* best = now;
  if (now->matches.empty())
    for (const RuleInfo& r : document_.rules())
      if (r.matches.size() > best->matches.size()) best = &r;
  if (best != now) choose(QString(best->name));
}

/// Once is enough: engines of one version know the same operators.
void RulesPanel::askWords() {
  if (hasWords_) return;
  context_.engine().call(QStringLiteral("rules/words"), {},
                         [self = QPointer<RulesPanel>(this)](const EngineReply& reply) {
                           if (!self) return;
                           QStringList words;
                           for (const QJsonValue w : reply.result.value(QLatin1String("words")).toArray())
                             words << w.toString();
                           self->hasWords_ = !words.isEmpty();
                           if (self->hasWords_) self->editor_->setWords(words);
                         });
}

void RulesPanel::makeRuleFromSelection(QWidget* window) {
  const GraphRef g = document_.graph();
  const QStringList names = g ? nodesOf(*g, document_.selection()) : QStringList();
  if (!g || patternFromNodes(*g, names).isEmpty())
    return Q_EMIT context_.failed(tr("No rule was made"),
                                  tr("first select the nodes of the pattern (Ctrl adds to the selection)"));
  auto* dialog = new RuleFromSelection(
      g, names,
      [this](const QString& text) {
        Q_EMIT context_.arrangementAsked(Arrangement::Rewrite);
        const QString before = withImports(editor_->text()) + QStringLiteral("\n\n\n");
        editor_->setText(before + text, true);
        editor_->showLine(static_cast<int>(before.count(QLatin1Char('\n'))) + 1);
        document_.setCurrentRule(QStringLiteral("NewRule"));
      },
      window);
  dialog->setObjectName(QStringLiteral("ruleFromSelection"));
  dialog->show();
}

void RulesPanel::addRule(const QString& file, const QString& rule) {
  const QString text = LibraryPanel::ruleText(file, rule, editor_->text());
  if (text.isEmpty())
    return Q_EMIT context_.failed(tr("The rule was not added"), tr("%1 no longer holds %2").arg(file, rule));
  if (document_.rule(rule))
    return Q_EMIT context_.failed(tr("The rule was not added"), tr("there is a rule named %1 already").arg(rule));
  Q_EMIT context_.arrangementAsked(Arrangement::Rewrite);
  const QString own = editor_->text().trimmed();
  QStringList missing = LibraryPanel::importsOf(file);
  missing.removeIf([&](const QString& line) { return own.split(QLatin1Char('\n')).contains(line); });
  QStringList parts{missing.join(QLatin1Char('\n')), own};
  parts.removeAll(QString());
  editor_->setText(parts.join(QLatin1Char('\n')) + QStringLiteral("\n\n\n") + text + QLatin1Char('\n'), true);
  document_.setCurrentRule(rule);
}

PanelDescription rulesPanel() {
  PanelDescription d;
  d.name = QStringLiteral("rules");
  d.title = RulesPanel::tr("Rules");
  d.help = RulesPanel::tr("Write rules here; their matches show as you type");
  d.area = Qt::LeftDockWidgetArea;
  d.arrangements = {Arrangement::Rewrite};
  d.needsModel = false;
  d.size = {480, 0};
  d.make = [](PanelContext& context) { return new RulesPanel(context); };
  return d;
}

}  // namespace graft
