//go:build !unix

package process

import "math"

func CPU() float64 { return math.NaN() }

func MaxFiles() int { return 0 }
