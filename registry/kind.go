package registry

import (
	"maps"
	"slices"
)

// A Kind is the type of a problem. It is a stable slug and part of the public
// contract: its meaning never changes.
type Kind string

// Kinds of problems.
const (
	KindMalformed            Kind = "malformed"
	KindBadPosition          Kind = "bad-position"
	KindUnauthorized         Kind = "unauthorized"
	KindForbidden            Kind = "forbidden"
	KindCrossOrigin          Kind = "cross-origin"
	KindForwarded            Kind = "forwarded"
	KindNotFound             Kind = "not-found"
	KindNoResult             Kind = "no-result"
	KindMethodNotAllowed     Kind = "method-not-allowed"
	KindBodyTooSlow          Kind = "body-too-slow"
	KindNotAcceptable        Kind = "not-acceptable"
	KindNameTaken            Kind = "name-taken"
	KindAmbiguousName        Kind = "ambiguous-name"
	KindExists               Kind = "exists"
	KindNotInFile            Kind = "not-in-file"
	KindConflict             Kind = "conflict"
	KindGap                  Kind = "gap"
	KindPreconditionFailed   Kind = "precondition-failed"
	KindBodyTooLarge         Kind = "body-too-large"
	KindUnsupportedMediaType Kind = "unsupported-media-type"
	KindMisdirected          Kind = "misdirected"
	KindBadQuery             Kind = "bad-query"
	KindUpdateRefused        Kind = "update-refused"
	KindServiceRefused       Kind = "service-refused"
	KindUnknownEndpoint      Kind = "unknown-endpoint"
	KindUnknownQuery         Kind = "unknown-query"
	KindBadSetting           Kind = "bad-setting"
	KindBadEndpoint          Kind = "bad-endpoint"
	KindBadProfile           Kind = "bad-profile"
	KindLimit                Kind = "limit"
	KindQuota                Kind = "quota"
	KindRate                 Kind = "rate"
	KindBusy                 Kind = "busy"
	KindTooManyGuesses       Kind = "too-many-guesses"
	KindTooMany              Kind = "too-many"
	KindInternal             Kind = "internal"
	KindUnavailable          Kind = "unavailable"
	KindStorageFull          Kind = "storage-full"
	KindNotReady             Kind = "not-ready"
)

// Title is a kind's name for people.
func (k Kind) Title() string { return kindTitles[k] }

// Kinds lists all kinds in alphabetical order.
func Kinds() []Kind { return slices.Sorted(maps.Keys(kindTitles)) }

var kindTitles = map[Kind]string{
	KindMalformed:            "The request cannot be read",
	KindBadPosition:          "Not a position",
	KindUnauthorized:         "A token is needed",
	KindForbidden:            "Not allowed",
	KindCrossOrigin:          "Cross-origin write refused",
	KindForwarded:            "Forwarded requests need tokens",
	KindNotFound:             "Not found",
	KindNoResult:             "No result yet",
	KindMethodNotAllowed:     "Method not allowed",
	KindBodyTooSlow:          "The body did not arrive",
	KindNotAcceptable:        "Not acceptable",
	KindNameTaken:            "You use this name for another query",
	KindAmbiguousName:        "Several have this name",
	KindExists:               "Exists already",
	KindNotInFile:            "Not in the file",
	KindConflict:             "Not possible now",
	KindGap:                  "The change log does not reach back",
	KindPreconditionFailed:   "Changed meanwhile",
	KindBodyTooLarge:         "The body is too large",
	KindUnsupportedMediaType: "Unsupported media type",
	KindMisdirected:          "Not this server's name",
	KindBadQuery:             "The query cannot be watched",
	KindUpdateRefused:        "SPARQL Update is not accepted",
	KindServiceRefused:       "SERVICE is not allowed on this endpoint",
	KindUnknownEndpoint:      "No such endpoint",
	KindUnknownQuery:         "No such query",
	KindBadSetting:           "A setting is out of range",
	KindBadEndpoint:          "The endpoint's settings do not fit",
	KindBadProfile:           "The profile cannot be captured",
	KindLimit:                "A limit of this server is reached",
	KindQuota:                "The token holds as much as it may",
	KindRate:                 "Too many registrations at once",
	KindBusy:                 "Too many of these at once",
	KindTooManyGuesses:       "Too many wrong tokens",
	KindTooMany:              "Too many connections",
	KindInternal:             "Something went wrong here",
	KindUnavailable:          "Not available now",
	KindStorageFull:          "The server's disk is full",
	KindNotReady:             "Not ready",
}
