// Package rule evaluates alert rules over the log of a query. It is pure: the times of
// complete answers are its only clock, so a replay of the log gives the same alerts.
//
// # Conditions
//
// The condition of a rule, its setting when, is one of
//
//	rows > 0                    the number of rows; the rule has at most one alert
//	?value > 10 and ?s != "x"   rows that meet all comparisons; each set of labels
//	                            is an alert
//	changed                     a change of the result; at most one alert
//	added, removed              a change that adds or removes rows
//	changed ?v where ?s = "x"   a change of these variables, of rows that meet all
//	                            comparisons; the same for added and removed
//
// A row that is removed and one that is added with the same values of the variables have not
// changed. Where the log does not lead to a result, any other result counts as a change.
//
// Comparisons are =, !=, <, <=, >, >=, contains and starts, with a number, true, false, a
// quoted string, an IRI in angle brackets, or a word. They are those of
// registry.Condition: numbers are compared as numbers, everything else as text.
//
// # Time
//
// Only complete answers count. The condition is examined whenever a complete answer
// arrives, changed or not, and time passes for a rule only with such answers:
//
//   - An alert is pending from the first answer in which its condition is met. It fires
//     with the first answer, not earlier than For afterwards, if the condition was met in
//     all answers between them. With For 0 it fires at once.
//   - A firing alert is resolved by the first answer in which the condition is not met. With
//     KeepFiringFor it is resolved by the first answer, not earlier than that after the
//     first one in which the condition was not met, if it was not met in between.
//   - While a result is stale, nothing fires and nothing is resolved.
//   - An alert of a rule on changes fires with a change and is resolved KeepFiringFor
//     after the last one, 5 minutes by default.
//
// The log holds changes only. The answers between them that confirmed a result are not
// recorded. Replay assumes that there were enough of them: an alert fires exactly when For
// has passed.
package rule
