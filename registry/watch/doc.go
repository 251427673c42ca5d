// Package watch turns "tell me what changes about this thing" into queries, and their
// changes into text.
//
// A watch is an ordinary registration with a canonical query text and the tag "watch".
// What it watches follows from the query, so nothing else is stored:
//
//   - an entity: its properties and values, the resources that refer to it, or both;
//   - the instances of a class;
//   - the members of a category.
//
// The texts differ only in constants that package endpoint/merge accepts as parameters,
// so that a thousand watches need few requests. One exception is rdf:type: endpoints may
// infer instances, and merging keeps the class as a constant. Classes on Wikidata use
// another property and merge.
//
// # Labels
//
// The queries do not ask for labels. A label column would turn each edited label into a
// change, and a result would no longer be exactly what the endpoint says about the
// entity. Labels looks them up separately: rarely, for many IRIs at a time, within the
// endpoint's budget. They are for people only and never take part in a comparison.
package watch
