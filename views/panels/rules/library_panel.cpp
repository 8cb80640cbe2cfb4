#include "views/panels/rules/library_panel.h"

#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QFileDialog>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QJsonArray>
#include <QPointer>
#include <QRegularExpression>
#include <QSet>
#include <QSettings>
#include <QSplitter>
#include <QVBoxLayout>

#include "views/canvas/canvas.h"
#include "views/document/graph_decode.h"
#include "views/widgets/empty_hint.h"
#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

constexpr int fileRole = Qt::UserRole, ruleRole = Qt::UserRole + 1, lineRole = Qt::UserRole + 2,
              aboutRole = Qt::UserRole + 3, patternRole = Qt::UserRole + 4, stateRole = Qt::UserRole + 5,
              folderRole = Qt::UserRole + 6;
enum State { Unread, Asked, Read };

const QString setting = QStringLiteral("ruleFolders");

QString textOf(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? QString::fromUtf8(file.readAll()) : QString();
}

}  // namespace

QStringList LibraryPanel::shippedFolders() {
  QStringList out;
  const QString beside = QCoreApplication::applicationDirPath();
  for (const char* folder : {"/../share/graft/rules", "/../../resources/rules", "/../../../resources/rules"})
    if (const QDir d(beside + QString::fromLatin1(folder)); d.exists() && out.isEmpty()) out << d.canonicalPath();
  return out;
}

QStringList LibraryPanel::ownFolders() { return QSettings().value(setting).toStringList(); }

QString LibraryPanel::ruleText(const QString& file, const QString& rule, const QString& present) {
  struct Block {
    QString name, text;
    bool taken = false;
  };
  // What stands at the margin begins a block: a class, a function, a name that is given a value.
  static const QRegularExpression head(QStringLiteral("^(?:class|def)\\s+(\\w+)|^(\\w+)\\s*="));
  const auto blocksOf = [](const QString& text) {
    std::vector<Block> out;
    for (const QString& line : text.split(QLatin1Char('\n'))) {
      const bool atMargin = !line.isEmpty() && !line[0].isSpace() && line[0] != QLatin1Char(')');
      const QRegularExpressionMatch m = atMargin ? head.match(line) : QRegularExpressionMatch();
      if (m.hasMatch())
        out.push_back({m.captured(1).isEmpty() ? m.captured(2) : m.captured(1), line});
      else if (atMargin)
        out.push_back({QString(), line});
      else if (!out.empty())
        out.back().text += QLatin1Char('\n') + line;
    }
    return out;
  };
  std::vector<Block> blocks = blocksOf(textOf(file));
  QSet<QString> known;
  for (const Block& b : blocksOf(present)) known.insert(b.name);
  QStringList wanted{rule};
  while (!wanted.isEmpty()) {
    const QString name = wanted.takeFirst();
    for (Block& b : blocks) {
      if (b.name != name || b.name.isEmpty() || b.taken) continue;
      b.taken = true;
      for (const Block& other : blocks)
        if (!other.name.isEmpty() && !other.taken && !known.contains(other.name) &&
            QRegularExpression(QStringLiteral("\\b%1\\b").arg(other.name)).match(b.text).hasMatch())
          wanted << other.name;
    }
  }
  QStringList out;
  for (const Block& b : blocks)
    if (b.taken) out << b.text.trimmed();
  return out.join(QStringLiteral("\n\n\n"));
}

QStringList LibraryPanel::importsOf(const QString& file) {
  QStringList out;
  for (const QString& line : textOf(file).split(QLatin1Char('\n')))
    if (line.startsWith(QLatin1String("import ")) || line.startsWith(QLatin1String("from "))) out << line.trimmed();
  return out;
}

LibraryPanel::LibraryPanel(EngineClient& engine, QWidget* parent) : QWidget(parent), engine_(engine) {
  tree_ = new QTreeWidget(this);
  tree_->setAccessibleName(tr("Rule library"));
  tree_->setHeaderHidden(true);
  tree_->setMouseTracking(true);
  tree_->setUniformRowHeights(true);
  new EmptyHint(tree_, tr("No rules are installed here. “Folder…” adds a folder with rule files of your own."));
  text_ = new QLabel(this);
  text_->setWordWrap(true);
  text_->setTextFormat(Qt::RichText);
  text_->setContentsMargins(8, 6, 8, 6);
  text_->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  text_->hide();  // until it says something
  picture_ = new Canvas;
  picture_->setAccessibleName(tr("Pattern of the rule"));
  picture_->setAutoFit(true, smallestPreview);
  picture_->setPlaceholder(tr("Point at a rule to see its pattern."));
  auto* below = new QWidget;
  auto* belowColumn = new QVBoxLayout(below);
  belowColumn->setContentsMargins(0, 0, 0, 0);
  belowColumn->setSpacing(0);
  belowColumn->addWidget(text_);
  belowColumn->addWidget(picture_, 1);
  auto* split = new QSplitter(Qt::Vertical);
  split->addWidget(tree_);
  split->addWidget(below);
  split->setStretchFactor(0, 1);
  split->setStretchFactor(1, 1);
  split->setHandleWidth(1);
  split->setSizes({260, 260});
  picture_->setMinimumHeight(150);
  open_ = new QPushButton(tr("Open"), this);
  open_->setToolTip(tr("Open the rule file in the editor"));
  add_ = new QPushButton(tr("Add"), this);
  add_->setToolTip(tr("Add this rule to the end of the rules in the editor"));
  folder_ = new QPushButton(tr("Folder…"), this);
  folder_->setToolTip(tr("Add a folder with rule files of your own to this list"));
  remove_ = new QPushButton(tr("Remove"), this);
  remove_->setToolTip(tr("Remove this folder from the list; its files stay"));
  auto* buttons = new QHBoxLayout;
  buttons->setContentsMargins(8, 8, 8, 8);
  buttons->setSpacing(8);
  for (QPushButton* b : {open_, add_}) buttons->addWidget(b);
  buttons->addStretch();
  for (QPushButton* b : {remove_, folder_}) buttons->addWidget(b);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(split, 1);
  column->addLayout(buttons);

  connect(tree_, &QTreeWidget::itemExpanded, this, &LibraryPanel::ask);
  connect(tree_, &QTreeWidget::itemEntered, this, &LibraryPanel::showPreview);
  connect(tree_, &QTreeWidget::currentItemChanged, this, [this](QTreeWidgetItem* item) {
    showPreview(item);
    refreshButtons();
  });
  connect(tree_, &QTreeWidget::itemDoubleClicked, this, [this](QTreeWidgetItem* item) {
    const QString file = item->data(0, fileRole).toString();
    if (!file.isEmpty() && !item->data(0, ruleRole).toString().isEmpty())
      Q_EMIT openAsked(file, item->data(0, lineRole).toInt());
  });
  connect(open_, &QPushButton::clicked, this, [this] {
    if (QTreeWidgetItem* item = tree_->currentItem())
      Q_EMIT openAsked(item->data(0, fileRole).toString(), item->data(0, lineRole).toInt());
  });
  connect(add_, &QPushButton::clicked, this, [this] {
    QTreeWidgetItem* item = tree_->currentItem();
    if (!item) return;
    const QString file = item->data(0, fileRole).toString(), rule = item->data(0, ruleRole).toString();
    Q_EMIT addAsked(file, rule);
  });
  connect(folder_, &QPushButton::clicked, this, [this] {
    const QString folder = QFileDialog::getExistingDirectory(this, tr("Rules of your own"));
    if (!folder.isEmpty()) addFolder(folder);
  });
  connect(remove_, &QPushButton::clicked, this, [this] {
    QTreeWidgetItem* item = tree_->currentItem();
    if (!item) return;
    QStringList own = ownFolders();
    own.removeAll(item->data(0, folderRole).toString());
    QSettings().setValue(setting, own);
    refresh();
  });
  connect(&engine_, &EngineClient::up, this, [this] {
    for (QTreeWidgetItemIterator it(tree_); *it; ++it)
      if ((*it)->isExpanded()) ask(*it);
  });
  refreshButtons();
}

void LibraryPanel::setTheme() {
  picture_->setTheme(currentTheme());
  for (QTreeWidgetItemIterator it(tree_); *it; ++it)
    if ((*it)->flags() == Qt::NoItemFlags) (*it)->setForeground(0, toQt(themePalette().dim));
}

void LibraryPanel::addFolder(const QString& folder) {
  QStringList own = ownFolders();
  own.removeAll(folder);
  own << folder;
  QSettings().setValue(setting, own);
  refresh();
}

void LibraryPanel::showEvent(QShowEvent*) {
  if (!filled_) refresh();
}

void LibraryPanel::refresh() {
  filled_ = true;
  tree_->clear();
  for (const QString& folder : shippedFolders()) addFiles(tr("Shipped with Graft"), folder, false);
  for (const QString& folder : ownFolders()) addFiles(QFileInfo(folder).fileName(), folder, true);
  refreshButtons();
}

void LibraryPanel::addFiles(const QString& title, const QString& folder, bool isOwn) {
  auto* top = new QTreeWidgetItem(tree_, {title});
  top->setToolTip(0, folder);
  if (isOwn) top->setData(0, folderRole, folder);
  const QFileInfoList files = QDir(folder).entryInfoList({QStringLiteral("*.py")}, QDir::Files, QDir::Name);
  for (const QFileInfo& f : files) {
    auto* item = new QTreeWidgetItem(top, {f.completeBaseName()});
    item->setData(0, fileRole, f.absoluteFilePath());
    item->setToolTip(0, f.absoluteFilePath());
    item->setChildIndicatorPolicy(QTreeWidgetItem::ShowIndicator);
  }
  if (files.isEmpty()) {
    auto* none =
        new QTreeWidgetItem(top, {QDir(folder).exists() ? tr("No rule files (*.py) here") : tr("This folder is gone")});
    none->setFlags(Qt::NoItemFlags);
    none->setForeground(0, toQt(themePalette().dim));
  }
  top->setExpanded(true);
}

/// The engine reads the rules of a file when it is opened in the tree for the first time.
void LibraryPanel::ask(QTreeWidgetItem* item) {
  const QString file = item->data(0, fileRole).toString();
  if (file.isEmpty() || item->data(0, ruleRole).isValid() || item->data(0, stateRole).toInt() != Unread ||
      !engine_.isUp())
    return;
  item->setData(0, stateRole, Asked);
  engine_.call(QStringLiteral("rules/check"), {{QStringLiteral("text"), textOf(file)}, {QStringLiteral("file"), file}},
               [self = QPointer<LibraryPanel>(this), file](const EngineReply& reply) {
                 if (!self) return;
                 for (QTreeWidgetItemIterator it(self->tree_); *it; ++it) {
                   if ((*it)->data(0, fileRole).toString() != file || (*it)->data(0, ruleRole).isValid()) continue;
                   if (reply.ok())
                     self->fill(*it, reply.result);
                   else
                     (*it)->setData(0, stateRole, Unread);
                   return;
                 }
               });
}

void LibraryPanel::fill(QTreeWidgetItem* file, const QJsonObject& checked) {
  const auto text = [](const QJsonObject& o, const char* key) { return o.value(QLatin1String(key)).toString(); };
  qDeleteAll(file->takeChildren());
  file->setData(0, stateRole, Read);
  if (!checked.value(QLatin1String("ok")).toBool()) {
    const QJsonObject error = checked.value(QLatin1String("error")).toObject();
    auto* item = new QTreeWidgetItem(
        file, {tr("Line %1: %2").arg(error.value(QLatin1String("line")).toInt()).arg(text(error, "message"))});
    item->setForeground(0, toQt(themePalette().wrong()));
    return;
  }
  const QString path = file->data(0, fileRole).toString();
  const auto add = [&](const QJsonObject& o, const QString& label) {
    auto* item = new QTreeWidgetItem(file, {label});
    item->setData(0, fileRole, path);
    item->setData(0, ruleRole, text(o, "name"));
    item->setData(0, lineRole, o.value(QLatin1String("line")).toInt());
    item->setData(0, aboutRole, text(o, "description"));
    return item;
  };
  for (const QJsonValue v : checked.value(QLatin1String("rules")).toArray())
    if (!v.toObject().contains(QLatin1String("importedFrom")))  // it stands with its own file
      add(v.toObject(), text(v.toObject(), "name"))
          ->setData(0, patternRole, v.toObject().value(QLatin1String("pattern")).toObject());
  for (const QJsonValue v : checked.value(QLatin1String("recipes")).toArray()) {
    QStringList steps;
    for (const QJsonValue s : v.toObject().value(QLatin1String("steps")).toArray()) steps << s.toString();
    QTreeWidgetItem* item = add(v.toObject(), tr("%1 (recipe)").arg(text(v.toObject(), "name")));
    item->setData(
        0, aboutRole,
        (text(v.toObject(), "description") + QStringLiteral("\n") + steps.join(QStringLiteral(" → "))).trimmed());
  }
}

void LibraryPanel::showPreview(QTreeWidgetItem* item) {
  if (!item) return;
  const QString rule = item->data(0, ruleRole).toString();
  if (rule.isEmpty()) return;
  text_->setText(
      QStringLiteral("<b>%1</b><br>%2")
          .arg(rule.toHtmlEscaped(),
               item->data(0, aboutRole).toString().toHtmlEscaped().replace(QLatin1Char('\n'), QStringLiteral("<br>"))));
  text_->show();
  const QJsonObject pattern = item->data(0, patternRole).toJsonObject();
  picture_->setGraph(nullptr);
  picture_->setPlaceholder(pattern.isEmpty() ? tr("A recipe runs its rules in order.") : QString());
  if (!pattern.isEmpty()) picture_->setGraph(decodeGraph(pattern));
}

void LibraryPanel::refreshButtons() {
  QTreeWidgetItem* item = tree_->currentItem();
  open_->setEnabled(item && !item->data(0, fileRole).toString().isEmpty());
  add_->setEnabled(item && !item->data(0, ruleRole).toString().isEmpty());
  remove_->setVisible(item && !item->data(0, folderRole).toString().isEmpty());
}

PanelDescription libraryPanel() {
  PanelDescription d;
  d.name = QStringLiteral("library");
  d.title = LibraryPanel::tr("Rule &library");
  d.help = LibraryPanel::tr("Shows the rules that come with Graft and those in folders of your own");
  d.shortcut = LibraryPanel::tr("Ctrl+L");
  d.isOnRequest = true;
  d.tabbedWith = QStringLiteral("pattern");
  d.borrowsFrom = QStringLiteral("history");  // its tree and the drawing below it want height
  d.area = Qt::RightDockWidgetArea;
  d.arrangements = {Arrangement::Rewrite};
  d.size = {320, 0};
  d.make = [](PanelContext& context) {
    auto* library = new LibraryPanel(context.engine());
    QObject::connect(library, &LibraryPanel::openAsked, &context, &PanelContext::rulesAsked);
    QObject::connect(library, &LibraryPanel::addAsked, &context, &PanelContext::ruleTaken);
    QObject::connect(&context, &PanelContext::themeChanged, library, &LibraryPanel::setTheme);
    return library;
  };
  return d;
}

}  // namespace graft
