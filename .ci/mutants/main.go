// Command mutants breaks roomd on purpose, in one place after the other. It prints which test noticed, and how
// long the tests ran until then:
//
//	go run ./.ci/mutants                     all of them
//	go run ./.ci/mutants -run 'lease|queue'  those with such a name
//	go run ./.ci/mutants -sample 6           some, others each day; -day 2026-11-23 repeats those of that day
//	go run ./.ci/mutants -check              only checks that the code and the tests have the names and texts
//
// The mutants are in .ci/mutants/list. The command fails if a mutant survives, hangs, does not compile, or no
// longer fits the code, and if the test that noticed also fails without the mutant. It does not change the
// code. It builds a package's tests once, with all mutants that are in the body of a Go function; the
// environment chooses one. For every other mutant it builds them again, and Node reads a copy of the module.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	names := flag.String("run", "", "only mutants whose name matches this `pattern`")
	sample := flag.Int("sample", 0, "only so many of them, by the day")
	day := flag.String("day", time.Now().Format(time.DateOnly), "the day of the sample")
	limit := flag.Duration("timeout", 2*time.Minute, "how long its tests may run; then it hangs")
	check := flag.Bool("check", false, "run no test")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *names, *sample, *day, *limit, *check); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names string, sample int, day string, limit time.Duration, check bool) error {
	pattern, err := regexp.Compile(names)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	all, err := readLists()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("no mutants in " + lists + "; run it in the module's root")
	}
	if err := errors.Join(inCode(all), tested(all)); err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return !pattern.MatchString(m.name) })
	if sample > 0 {
		all = draw(all, sample, day)
	}
	if check {
		fmt.Printf("%d mutants are in the code, and the tests for them\n", len(all))
		return nil
	}
	w, err := newWorkshop(all)
	if err != nil {
		return err
	}
	defer w.close()
	var found []finding
	start := time.Now()
	for n, m := range all {
		f := w.try(ctx, n, limit)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		fmt.Printf("%3d/%d  %-9s %6.1fs  %s: %s\n", n+1, len(all), f.what, f.after.Seconds(), m.name, f.by)
		found = append(found, f)
	}
	return summary(all, found, time.Since(start))
}

// summary prints how many mutants each package's tests noticed, and how long they ran. It returns an error if
// some mutants were not caught.
func summary(all []mutant, found []finding, took time.Duration) error {
	by := make(map[string]int)
	var times []time.Duration
	for n, f := range found {
		if f.what == caught {
			by[all[n].tests]++
			times = append(times, f.after)
		}
	}
	fmt.Println()
	for _, pkg := range slices.Sorted(maps.Keys(by)) {
		fmt.Printf("%4d  %s\n", by[pkg], pkg)
	}
	if slices.Sort(times); len(times) > 0 {
		fmt.Printf("%d of %d mutants were caught, half of them within %.1f s and all within %.1f s, in %v\n",
			len(times), len(all), times[len(times)/2].Seconds(), times[len(times)-1].Seconds(), took.Round(time.Second))
	}
	if missed := len(all) - len(times); missed > 0 {
		return fmt.Errorf("%d mutants were not caught", missed)
	}
	return nil
}

// inCode returns an error that names all mutants whose text is not in the code exactly once, or whose name is
// not unique.
func inCode(all []mutant) error {
	var wrong []error
	seen := make(map[string]bool)
	for _, m := range all {
		text, err := os.ReadFile(m.file)
		switch n := strings.Count(string(text), m.old); {
		case err != nil:
			wrong = append(wrong, fmt.Errorf("%s: %w", m.name, err))
		case n != 1:
			wrong = append(wrong, fmt.Errorf("%s: its text is %d times in %s, and has to be there once; change .ci/mutants to fit the code:\n%s", m.name, n, m.file, m.old))
		case seen[m.name] || m.old == m.new:
			wrong = append(wrong, fmt.Errorf("%s: the name is there twice, or the mutant changes nothing", m.name))
		}
		seen[m.name] = true
	}
	return errors.Join(wrong...)
}

// tests matches a package's tests.
var tests = regexp.MustCompile(`(?m)^func (Test\w*)\(`)

// tested returns an error that names all mutants whose tests do not exist.
func tested(all []mutant) error {
	names := make(map[string][]string) // by package
	var wrong []error
	for _, m := range all {
		if m.run == "" {
			continue
		}
		if names[m.tests] == nil {
			files, _ := filepath.Glob(filepath.Join(m.tests, "*_test.go"))
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				for _, found := range tests.FindAllStringSubmatch(string(text), -1) {
					names[m.tests] = append(names[m.tests], found[1])
				}
			}
		}
		for name := range strings.SplitSeq(m.run, "|") {
			name, _, _ = strings.Cut(name, "/")
			if pattern, err := regexp.Compile(name); err != nil ||
				!slices.ContainsFunc(names[m.tests], pattern.MatchString) {
				wrong = append(wrong, fmt.Errorf("%s: %s has no test %s; change .ci/mutants", m.name, m.tests, name))
			}
		}
	}
	return errors.Join(wrong...)
}

// draw returns n mutants, chosen by the day.
func draw(all []mutant, n int, day string) []mutant {
	order := func(m mutant) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(day + m.name))
		return h.Sum64()
	}
	slices.SortFunc(all, func(a, b mutant) int { return cmp.Compare(order(a), order(b)) })
	return all[:min(n, len(all))]
}
