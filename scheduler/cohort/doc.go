// Package cohort learns how the queries of one template are best asked: one by one,
// several in a merged query, or several in a probe. It is pure: the caller passes times and
// outcomes, and equal inputs lead to equal choices.
//
// # Costs
//
// A request for m members with r rows is expected to take a + b·m + c·r seconds. The
// three numbers are learnt per kind by recursive least squares with forgetting. They
// also divide the time of a request among its members.
//
// # Choice
//
// The kind with the fewest seconds per member is used, including the seconds for members
// that are asked alone because it did not confirm them. A kind that costs r times
// as much is tried again after 32·r requests, for a few members. After a request that
// failed, its kind asks for half as many members; 128 good requests double the number
// again. If one member was the reason, the caller takes the failure back.
//
// # Audits
//
// One in a hundred merged answers, and at least one an hour, is compared with the answer
// of the query alone. A confirmed difference switches the kind off for a day.
package cohort
