// Package streamtest answers the queries of a stream.World from its triples, without an engine.
package streamtest

import (
	"maps"
	"slices"

	"github.com/freshet/freshet/bench/stream"
)

// Data are triples, with the indexes that the queries of a World need, so that a rig plays years of virtual time.
type Data struct {
	all      map[stream.Triple]bool
	objects  map[[2]string][]string // by subject and predicate
	subjects map[[2]string][]string // by predicate and object
}

// NewData returns data without triples.
func NewData() *Data {
	return &Data{map[stream.Triple]bool{}, map[[2]string][]string{}, map[[2]string][]string{}}
}

// Insert adds triples.
func (d *Data) Insert(list ...stream.Triple) {
	for _, t := range list {
		if !d.all[t] {
			d.all[t] = true
			so, po := [2]string{t[0], t[1]}, [2]string{t[1], t[2]}
			d.objects[so], d.subjects[po] = append(d.objects[so], t[2]), append(d.subjects[po], t[0])
		}
	}
}

// Remove removes triples.
func (d *Data) Remove(list ...stream.Triple) {
	for _, t := range list {
		if d.all[t] {
			delete(d.all, t)
			drop(d.objects, [2]string{t[0], t[1]}, t[2])
			drop(d.subjects, [2]string{t[1], t[2]}, t[0])
		}
	}
}

func drop(in map[[2]string][]string, key [2]string, value string) {
	list := in[key]
	list[slices.Index(list, value)] = list[len(list)-1]
	if in[key] = list[:len(list)-1]; len(list) == 1 {
		delete(in, key)
	}
}

// Objects returns the objects of a subject and a predicate, and Subjects the subjects of a predicate and an object.
func (d *Data) Objects(subject, predicate string) []string {
	return d.objects[[2]string{subject, predicate}]
}

// Subjects is like Objects.
func (d *Data) Subjects(predicate, object string) []string {
	return d.subjects[[2]string{predicate, object}]
}

// below returns what reaches an object over any number of triples of a predicate.
func (d *Data) below(predicate, object string) []string {
	found := map[string]bool{object: true}
	for todo := []string{object}; len(todo) > 0; todo = todo[1:] {
		for _, s := range d.Subjects(predicate, todo[0]) {
			if !found[s] {
				found[s] = true
				todo = append(todo, s)
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
