//go:build !unix

package bench

import "math"

func ownMicros() float64 { return math.NaN() }

func maxFiles() int { return 0 }
