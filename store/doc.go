// Package store keeps everything in one bbolt file behind the interfaces of the
// packages that need it: what was registered, the last complete result of each
// query, the log of changes, statistics, slots, tokens, and profiles with their
// rounds. A round is part of the transaction of the executions that open,
// advance and end it; a profile's captures are numbered there as changes are,
// under an epoch of the same kind.
//
// # Numbering
//
// Every change has two numbers that are given in the transaction that stores
// it: seq counts the changes of its query, offset those of the whole store.
// Both go up by one each and are never given twice under one epoch. The epoch
// of the store is random and new whenever the file may not be the one that was
// in use last (see generation.go); a query's epoch is the store's with the
// query's serial number, so it also changes when a query is removed and
// registered again. With a new epoch the kept changes are dropped, since no
// follower may continue through them; results, seq and offset stay.
//
// # Layout
//
// A query is named by its id in the buckets that are read by id, and by its
// serial number, never used twice, in those that hold its history; so is an
// endpoint ("space"). What hangs on a serial number can be deleted long after
// its owner is gone: removal takes the owner away at once and leaves the rest
// to purge.go. Numbers in keys are big-endian.
//
//	meta      schema, seed, epoch, generation, counters
//	spaces    endpoint name → space
//	owners    space number → endpoint name, only while the endpoint lives
//	endpoints name → endpoint, as JSON
//	health    space number → registry.Health, as JSON
//	slots     space number, slot number → scheduler.Slot, as JSON
//	queries   id → serial, space, revision, registry.Query as JSON
//	stats     id → serial, space, seq, scheduler.Stats; small, rewritten often
//	members   space, id
//	names     name, serial, caller → id; and caller, name, serial → id
//	live      id, caller → time of release
//	revisions space, revision → id: one entry per query
//	removals  space, revision → id of a removed query
//	results   serial → hash, form, document
//	changes   serial, seq → change
//	offsets   offset → serial, seq
//	old       offset → serial, seq, time: changes that retention may drop
//	purge     what is still to be deleted
//	holdings  caller → queries, their bytes, profiles
//	tokens    name → registry.Token, as JSON
//	profiles  id → serial, space, registry.Profile as JSON
//	progress  id → what has come of the profile: counts, its last opening; as JSON
//	rounds    serial of the profile, round → registry.Round, as JSON
//	open      serial, round: those that are open
//	ends      serial, place → round, captures and expiries so far
//	captures  serial, seq → place among the ends
//	models    query id → update.Week, as JSON, of queries that profiles predict
//	subscriptions id → registry.Subscription, as JSON: those that outlive a connection
package store
