//go:build !linux

package loopback

// This file is for systems on which a bound socket keeps servers from its port.

import "errors"

func hold() (addr string, release func(), err error) { return "", nil, errors.ErrUnsupported }
