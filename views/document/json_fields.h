// Fields of the engine's answers, by name.
//
//   number(at(objectAt(run, "original"), "medianMs"))
#pragma once

#include <QJsonObject>
#include <cmath>

namespace graft {

inline QJsonValue at(const QJsonObject& o, const char* key) { return o.value(QLatin1String(key)); }
inline QJsonObject objectAt(const QJsonObject& o, const char* key) { return at(o, key).toObject(); }
/// The engine sends NaN and infinities as strings. NaN where the value is neither a number nor one of these.
inline double number(const QJsonValue& v) { return v.isString() ? v.toString().toDouble() : v.toDouble(NAN); }

}  // namespace graft
