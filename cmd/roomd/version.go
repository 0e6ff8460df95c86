package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version says which roomd this is: its version, the revision it was built from, and Go's version.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return versionOf(info)
}

// release returns the version alone.
func release() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	return cmp.Or(info.Main.Version, "(devel)")
}

func versionOf(info *debug.BuildInfo) string {
	set := make(map[string]string)
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	revision := cmp.Or(set["vcs.revision"], "unknown")
	if set["vcs.modified"] == "true" {
		revision += " with changes"
	}
	if at := set["vcs.time"]; at != "" {
		revision += " of " + at
	}
	return fmt.Sprintf("roomd %s, revision %s, %s %s/%s", cmp.Or(info.Main.Version, "(devel)"), revision, info.GoVersion, runtime.GOOS, runtime.GOARCH)
}
