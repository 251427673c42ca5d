package plan

import (
	"cmp"
	"slices"
	"strings"
)

// A slotQueue holds items that wait for a slot, on one page for each such slot. Each
// item knows its slot and its position on the page, so removing it hardly reads other
// items.
type slotQueue struct {
	pages []page // in the order of slots
}

type page struct {
	slot uint64
	list []*item // in no order
}

// find returns the index of a slot's page, or where the page belongs. Most calls are
// for the last page.
func (a *slotQueue) find(slot uint64) (i int, found bool) {
	if n := len(a.pages); n > 0 && a.pages[n-1].slot == slot {
		return n - 1, true
	}
	return slices.BinarySearchFunc(a.pages, slot, func(p page, slot uint64) int { return cmp.Compare(p.slot, slot) })
}

// set makes c wait for a slot, which is not 0.
func (a *slotQueue) set(c *item, slot uint64) {
	a.drop(c)
	i, found := a.find(slot)
	if !found {
		a.pages = slices.Insert(a.pages, i, page{slot: slot})
	}
	p := &a.pages[i]
	c.slot, c.seat = slot, int32(len(p.list))
	p.list = append(p.list, c)
}

// drop removes c if it waits.
func (a *slotQueue) drop(c *item) {
	if c.slot == 0 {
		return
	}
	i, _ := a.find(c.slot)
	p := &a.pages[i]
	n := len(p.list) - 1
	last := p.list[n]
	p.list[c.seat], last.seat = last, c.seat
	p.list[n], p.list = nil, p.list[:n]
	c.slot = 0
	if n == 0 {
		a.pages = slices.Delete(a.pages, i, i+1)
	}
}

// due removes the items that wait for the slot or an earlier one, and calls each for
// them.
func (a *slotQueue) due(slot uint64, each func(*item)) {
	for len(a.pages) > 0 && a.pages[0].slot <= slot {
		list := a.pages[0].list
		a.pages = slices.Delete(a.pages, 0, 1)
		for _, c := range list {
			c.slot = 0
			each(c)
		}
	}
}

// next lists up to most items, by slot and then by id.
func (a *slotQueue) next(most int) (list []*item) {
	for _, p := range a.pages {
		page := slices.SortedFunc(slices.Values(p.list), func(a, b *item) int { return strings.Compare(a.Query.ID, b.Query.ID) })
		if list = append(list, page[:min(most-len(list), len(page))]...); len(list) == most {
			break
		}
	}
	return list
}
