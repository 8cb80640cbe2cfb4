// LibraryPanel: rule files to take rules from, the shipped ones and folders of one's own. Below it shows the rule under
// the pointer: its description and a drawing of its pattern. A double click opens the file at the rule; "Add" puts the
// rule into the file that is being edited.
#pragma once

#include <QJsonObject>
#include <QLabel>
#include <QPushButton>
#include <QTreeWidget>
#include <QWidget>

#include "views/panels/panel.h"

namespace graft {

class Canvas;

class LibraryPanel : public QWidget {
  Q_OBJECT

 public:
  explicit LibraryPanel(EngineClient& engine, QWidget* parent = nullptr);
  /// Reads the folders again.
  void refresh();
  /// Whole patterns are shown, however wide, down to this scale: their shape tells which one it is.
  static constexpr double smallestPreview = 0.05;
  QTreeWidget* tree() { return tree_; }
  Canvas* preview() { return picture_; }
  QString previewText() const { return text_->text(); }
  void setTheme();
  static QStringList shippedFolders();
  static QStringList ownFolders();
  void addFolder(const QString& folder);
  /// A rule of a rule file with the functions, values and rules of that file that it uses, transitively, but for those
  /// whose names `present` gives a meaning already; "" where the rule is not there.
  static QString ruleText(const QString& file, const QString& rule, const QString& present = {});

  /// The import lines of a rule file.
  static QStringList importsOf(const QString& file);

 Q_SIGNALS:
  void openAsked(const QString& file, int line);
  void addAsked(const QString& file, const QString& rule);

 protected:
  void showEvent(QShowEvent*) override;

 private:
  void addFiles(const QString& title, const QString& folder, bool isOwn);
  void ask(QTreeWidgetItem* file);
  void fill(QTreeWidgetItem* file, const QJsonObject& checked);
  void showPreview(QTreeWidgetItem* item);
  void refreshButtons();

  EngineClient& engine_;
  QTreeWidget* tree_;
  QLabel* text_;
  Canvas* picture_;
  QPushButton *open_, *add_, *folder_, *remove_;
  bool filled_ = false;
};

PanelDescription libraryPanel();

}  // namespace graft
