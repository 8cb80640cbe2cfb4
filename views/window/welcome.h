// The page of an empty window: what one can do first, what was open lately, the sample models.
#pragma once

#include <QVBoxLayout>
#include <QWidget>

namespace graft {

class WelcomePage : public QWidget {
  Q_OBJECT

 public:
  explicit WelcomePage(QWidget* parent = nullptr);
  void setFiles(const QStringList& recent, const QStringList& samples);

 Q_SIGNALS:
  void openAsked();
  void rulesAsked();
  void fileChosen(const QString& path);
  void tourAsked();

 protected:
  void dragEnterEvent(QDragEnterEvent*) override;
  void dropEvent(QDropEvent*) override;

 private:
  QWidget* section(const QString& title, const QStringList& paths, const QString& empty, bool showFolder);
  QHBoxLayout* lists_;
};

}  // namespace graft
