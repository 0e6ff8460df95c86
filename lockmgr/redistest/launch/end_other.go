//go:build !linux

package launch

import (
	"errors"
	"os"
	"os/exec"
)

// endWithUs does nothing: this kernel cannot end a process together with another.
func endWithUs(*exec.Cmd) {}

// lock always fails. A server may outlive its launcher here and still use its folder, so no folder is known to
// be abandoned.
func lock(*os.File) error { return errors.ErrUnsupported }
