package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// programOf returns the path of a roomload program. name is a path, or a revision, which programOf builds; ""
// means this program.
func programOf(ctx context.Context, work, name string, log io.Writer) (string, error) {
	if name == "" {
		return os.Executable()
	}
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		return filepath.Abs(name)
	}
	tree, err := os.MkdirTemp(work, "")
	if err != nil {
		return "", err
	}
	fmt.Fprintln(log, "building", name)
	archive := filepath.Join(tree, "revision.tar")
	program := filepath.Join(tree, "roomload.exe")
	for _, args := range [][]string{
		{"git", "-C", ".", "archive", "-o", archive, name + ":./"},
		{"tar", "-xf", archive, "-C", tree},
		{"go", "build", "-C", tree, "-o", program, "./cmd/roomload"},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s is no program, and cannot be built as a revision of the repository: %s: %w: %s",
				name, args[0], err, bytes.TrimSpace(out))
		}
	}
	return program, nil
}
