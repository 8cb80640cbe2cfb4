// graft-gui [MODEL] [--rules FILE] [--library LIB] [--engine COMMAND]: the workbench's window. `graft engine` reads and
// runs the models.
#include <QApplication>
#include <QCommandLineParser>
#include <QFileInfo>
#include <QSettings>
#include <cstdio>
#include <cstring>

#include "views/document/document_info.h"
#include "views/widgets/theme.h"
#include "views/window/allocator.h"
#include "views/window/main_window.h"

int main(int argc, char** argv) {
  graft::tuneAllocator();
  // Options that only print need no screen: they also work over a plain ssh line.
  for (const char* asked : {"-h", "--help", "--help-all", "-v", "--version"})
    for (int i = 1; i < argc; ++i)
      if (std::strcmp(argv[i], asked) == 0) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication app(argc, argv);
  QApplication::setApplicationName(QStringLiteral("graft-gui"));
  QApplication::setApplicationDisplayName(QStringLiteral("Graft"));
  QApplication::setOrganizationName(QStringLiteral("graft"));
  QApplication::setApplicationVersion(QStringLiteral(GRAFT_VERSION));
  QApplication::setDesktopFileName(QStringLiteral("graft"));

  QCommandLineParser parser;
  parser.setApplicationDescription(
      QCoreApplication::translate("main", "See inside a PyTorch model and make it faster."));
  parser.addHelpOption();
  parser.addVersionOption();
  parser.addPositionalArgument(QStringLiteral("MODEL"),
                               QCoreApplication::translate("main", "TorchScript, torch.export or FX file"),
                               QStringLiteral("[MODEL]"));
  const QCommandLineOption rules(QStringLiteral("rules"), QCoreApplication::translate("main", "Open this rule file"),
                                 QStringLiteral("FILE"));
  const QCommandLineOption engine(
      QStringLiteral("engine"),
      QCoreApplication::translate("main", "How to start the engine, e.g. \"ssh gpu-box graft engine\""),
      QStringLiteral("COMMAND"));
  const QCommandLineOption library(
      QStringLiteral("library"),
      QCoreApplication::translate("main", "Load a library of your own operators; give it once for each"),
      QStringLiteral("LIB.so|MODULE.py"));
  const QCommandLineOption theme(QStringLiteral("theme"), QCoreApplication::translate("main", "light, dark or system"),
                                 QStringLiteral("THEME"));
  const QCommandLineOption inputs(
      QStringLiteral("inputs"), QCoreApplication::translate("main", "Example inputs of the model, for shapes and runs"),
      QStringLiteral("FILE"));
  const QCommandLineOption method(
      QStringLiteral("method"),
      QCoreApplication::translate("main", "Which graph of a capture to open: joint, forward.1, backward, …"),
      QStringLiteral("NAME"));
  parser.addOptions({rules, inputs, method, engine, library, theme});
  parser.process(app);

  const auto refuse = [](const QString& why) { return std::fprintf(stderr, "graft-gui: %s\n", qPrintable(why)), 2; };
  const std::optional<QStringList> words = graft::commandWords(parser.value(engine));
  if (!words) return refuse(QCoreApplication::translate("main", "--engine: a quote is not closed"));
  QStringList command = *words;
  if (command.isEmpty()) {
    const QString beside = QCoreApplication::applicationDirPath() + QStringLiteral("/graft");
    command = {QFileInfo::exists(beside) ? beside : QStringLiteral("graft"), QStringLiteral("engine")};
  }
  for (const QString& path : parser.values(library)) command << QStringLiteral("--library") << graft::placeOf(path);
  const QStringList files = parser.positionalArguments();
  if (files.size() > 1)
    return refuse(
        QCoreApplication::translate("main", "open one MODEL at a time; View > Compare with another file shows two"));
  if (parser.isSet(inputs) && files.isEmpty())
    return refuse(QCoreApplication::translate("main", "--inputs gives a MODEL its inputs: name the MODEL, too"));
  if (parser.isSet(method) && files.isEmpty())
    return refuse(QCoreApplication::translate("main", "--method chooses a graph of a MODEL: name the MODEL, too"));
  const QStringList themes{QStringLiteral("light"), QStringLiteral("dark"), QStringLiteral("system")};
  if (parser.isSet(theme) && !themes.contains(parser.value(theme)))
    return refuse(
        QCoreApplication::translate("main", "--theme is light, dark or system, not \"%1\"").arg(parser.value(theme)));
  const QString wanted =
      parser.isSet(theme) ? parser.value(theme) : QSettings().value(QStringLiteral("theme")).toString();
  graft::applyTheme(wanted == QLatin1String("dark")    ? graft::Theme::Dark
                    : wanted == QLatin1String("light") ? graft::Theme::Light
                                                       : graft::systemTheme());

  graft::MainWindow window(command);
  window.restoreSession(files.isEmpty() && !parser.isSet(rules));
  window.show();
  if (parser.isSet(rules)) window.openRules(parser.value(rules));
  for (const QString& file : files) window.openModel(file, parser.value(inputs), parser.value(method));
  return QApplication::exec();
}
