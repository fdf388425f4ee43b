// Package demo runs a demonstration: it reads the command line and decides when it is over.
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Main is the main function of the program of that name: it runs show until Ctrl-C, or for as long as -for says, and then
// ends the process if show failed. The program's help says that show does what, such as "replace a keypair", every so often.
func Main(name, what string, show func(ctx context.Context, every time.Duration) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)   // a second Ctrl-C ends the process at once
	signal.Ignore(syscall.SIGPIPE) // a reader of our output that leaves is no reason to leave files behind

	every, limit, err := parse(name, what, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2) // parse has said why
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if err := show(ctx, every); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(name, what string, args []string) (every, limit time.Duration, err error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.DurationVar(&every, "every", 3*time.Second, what+" this often")
	flags.DurationVar(&limit, "for", 0, "end after this long; 0 is never")
	if err := flags.Parse(args); err != nil {
		return 0, 0, err
	}
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case every <= 0:
		err = errors.New("-every must be positive")
	}
	if err != nil {
		fmt.Fprintln(flags.Output(), err)
		flags.Usage()
	}
	return every, limit, err
}
