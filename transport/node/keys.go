package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport/auth"
	"roomd/transport/internal/reload"
)

// Flags that name a key are pointers, because an empty value is a mistake and does not mean "no key".

// secretFlags name a key that makes and verifies tokens.
type secretFlags struct {
	AuthSecret     *string `xor:"key" secret:"" placeholder:"SECRET" help:"Key of tokens signed with HS256, at least 32 bytes. Other users of the machine see it among the arguments: better give it as ROOMD_AUTH_SECRET or in a file."`
	AuthSecretFile *string `xor:"key" placeholder:"FILE" help:"File with that secret. A line break at its end does not count."`
}

type partyFlags struct {
	AuthAudience string `placeholder:"NAME" help:"What a token's aud must name. Use it if the issuer makes tokens for other services, too."`
	AuthIssuer   string `placeholder:"NAME" help:"What a token's iss must be."`
}

type verifierFlags struct {
	secretFlags     `embed:""`
	AuthPublicKey   *string `xor:"key" group:"Who may connect:" placeholder:"FILE" help:"PEM file with the public key of tokens signed with RS256, ES256 (P-256) or EdDSA (Ed25519)."`
	AuthJWKS        *string `xor:"key" group:"Who may connect:" name:"auth-jwks" placeholder:"FILE|URL" help:"JSON Web Key Set with such keys, which tokens name by kid. All key files are read again when they change. A URL, https:// or on loopback http://, must answer when the node starts. It is asked again about every five minutes, and for a token with an unknown kid, at most every 10 s. The last usable set counts while it does not answer."`
	AuthJWKSPrivate bool    `group:"Who may connect:" name:"auth-jwks-private" help:"The URL of --auth-jwks may lead to addresses of a private network, such as a Keycloak of your own. Otherwise they are refused."`
	partyFlags      `embed:""`
}

// keyFlag is a flag that names a key, with the function that reads its value.
type keyFlag[F any] struct {
	name  string
	value *string
	read  F
}

// given returns the flag that has a value, or nil. kong refuses more than one.
func given[F any](flags []keyFlag[F]) *keyFlag[F] {
	for i, flag := range flags {
		if flag.value != nil {
			return &flags[i]
		}
	}
	return nil
}

func (f *verifierFlags) source() *keyFlag[func(string) auth.KeySource] {
	return given([]keyFlag[func(string) auth.KeySource]{
		{"--auth-secret", f.AuthSecret, auth.Secret},
		{"--auth-secret-file", f.AuthSecretFile, auth.SecretFile},
		{"--auth-public-key", f.AuthPublicKey, auth.PublicKeyFile},
		{"--auth-jwks", f.AuthJWKS, f.jwks},
	})
}

func (f *verifierFlags) jwks(value string) auth.KeySource {
	if isURL(value) {
		return auth.JWKSURL(value, f.AuthJWKSPrivate)
	}
	return auth.JWKSFile(value)
}

func isURL(value string) bool { return strings.Contains(value, "://") }

func (f *verifierFlags) verifier(log *slog.Logger) (*auth.Verifier, error) {
	source := f.source()
	if f.AuthJWKSPrivate && (f.AuthJWKS == nil || !isURL(*f.AuthJWKS)) {
		return nil, errors.New("--auth-jwks-private is for a URL of --auth-jwks, which is not given")
	}
	if source == nil {
		if f.AuthAudience != "" || f.AuthIssuer != "" {
			return nil, errors.New("--auth-audience and --auth-issuer need a key, such as --auth-secret-file")
		}
		return nil, nil
	}
	verifier, err := auth.New(source.read(*source.value),
		auth.Options{Audience: f.AuthAudience, Issuer: f.AuthIssuer, Log: log})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source.name, err)
	}
	return verifier, nil
}

type tokenCmd struct {
	User  string        `required:"" placeholder:"NAME" help:"Who the token is for."`
	TTL   time.Duration `name:"ttl" default:"1h" placeholder:"1h" help:"How long it is valid."`
	Rooms []string      `placeholder:"PATTERN" help:"Rooms that the user may enter, such as 'table-*'. Repeat it, or give several with commas. Without it all are allowed."`
	Watch []string      `placeholder:"PATTERN" help:"Rooms that the user may watch without being a member. Without it those of --rooms."`
	Role  string        `default:"player" enum:"player,admin" placeholder:"player" help:"One of ${enum}."`

	secretFlags
	AuthPrivateKey *string `xor:"key" placeholder:"FILE" help:"PEM file with the private key for RS256, ES256 (P-256) or EdDSA (Ed25519)."`
	JWKS           *string `xor:"key" name:"jwks" placeholder:"FILE" help:"To try --auth-jwks: sign with the private key in FILE.pem. Without that file make one, and write FILE, its public key set, for nodes with --auth-jwks FILE."`
	KeyID          string  `placeholder:"KID" help:"The token's kid, for nodes with --auth-jwks and several keys."`
	AuthAudience   string  `placeholder:"NAME" help:"The token's aud."`
	AuthIssuer     string  `placeholder:"NAME" help:"The token's iss."`

	fileFlag
}

// Help returns the text that kong shows after the description.
func (*tokenCmd) Help() string {
	return "It prints the token alone, and nothing else, to standard output. Give it the key of the nodes: their " +
		`secret, or the private key that belongs to their public key. For example:

  roomd token --auth-secret-file secret --user NAME --ttl 8h --rooms 'table-*'

A browser sends it as new WebSocket(url, ["roomd.v1", "roomd.token." + token]).`
}

// Validate requires a key, and a --ttl of at least a second. Kong calls it.
func (c *tokenCmd) Validate() error {
	if c.TTL < time.Second {
		return fmt.Errorf("--ttl is %v, it must be at least 1s", c.TTL)
	}
	if c.key() == nil {
		return errors.New("a key is missing: --auth-secret-file, --auth-secret, --auth-private-key or --jwks")
	}
	return nil
}

func (c *tokenCmd) key() *keyFlag[func(string) (*auth.Signer, error)] {
	return given([]keyFlag[func(string) (*auth.Signer, error)]{
		{"--auth-secret", c.AuthSecret, auth.SecretSigner},
		{"--auth-secret-file", c.AuthSecretFile, auth.SecretFileSigner},
		{"--auth-private-key", c.AuthPrivateKey, auth.PrivateKeySigner},
		{"--jwks", c.JWKS, auth.JWKSSigner},
	})
}

func (c *tokenCmd) print(stdout io.Writer) error {
	key := c.key()
	signer, err := key.read(*key.value)
	if err != nil {
		return ofFlag(fmt.Errorf("%s: %w", key.name, err))
	}
	signer.KeyID, signer.Audience, signer.Issuer = c.KeyID, c.AuthAudience, c.AuthIssuer
	token, err := signer.Sign(auth.Identity{
		User: c.User, Rooms: c.Rooms, Watch: c.Watch, Role: auth.Role(c.Role), Expires: time.Now().Add(c.TTL),
	})
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	_, err = fmt.Fprintln(stdout, token)
	return err
}

// RedisFiles are the flags that name files of secrets and certificates for Redis, and Dial.
type RedisFiles struct {
	RedisPasswordFile         *string `placeholder:"FILE" help:"File with the password of the URL's user, which other users of the machine would see in the URL. A line break at its end does not count."`
	RedisSentinelPasswordFile *string `placeholder:"FILE" help:"File with the password of the Sentinels. Their user is sentinel_username in the URL."`
	RedisCA                   *string `name:"redis-ca" placeholder:"FILE" help:"PEM file with the authorities that certify Redis, in place of the system's. This and the next two need a rediss URL, and count for Sentinels, too."`
	RedisCert                 *string `and:"redis-tls" placeholder:"FILE" help:"PEM file with the certificate that Redis gets to see of this node."`
	RedisKey                  *string `and:"redis-tls" placeholder:"FILE" help:"PEM file with its private key."`

	Dial redisurl.Dialer `kong:"-"` // opens the connections; may be nil
}

// Open reads the files, and opens the Redis at url, the value of --redis. Its error is a [UseError], unless a file is
// the reason.
func (f *RedisFiles) Open(url string) (*redisurl.DB, error) {
	opts, err := f.options()
	if err != nil {
		return nil, err
	}
	db, err := redisurl.OpenWith(url, opts)
	if err == nil {
		return db, nil
	}
	tls := "--redis-cert"
	if f.RedisCA != nil {
		tls = "--redis-ca"
	}
	for _, contradiction := range []struct {
		err  error
		flag string
	}{
		{redisurl.ErrPassword, "--redis-password-file"},
		{redisurl.ErrSentinelPassword, "--redis-sentinel-password-file"},
		{redisurl.ErrNoTLS, tls},
	} {
		if errors.Is(err, contradiction.err) {
			return nil, UseError{fmt.Errorf("%s and --redis: %w", contradiction.flag, err)}
		}
	}
	return nil, UseError{fmt.Errorf("--%w", err)} // redisurl's error begins with redis
}

func (f *RedisFiles) options() (opts redisurl.Options, err error) {
	opts.Dial = f.Dial
	if opts.Password, err = passwordFile("--redis-password-file", f.RedisPasswordFile); err != nil {
		return opts, err
	}
	if opts.SentinelPassword, err = passwordFile("--redis-sentinel-password-file",
		f.RedisSentinelPasswordFile); err != nil {
		return opts, err
	}
	if f.RedisCA != nil {
		if opts.RootCAs, err = reload.Authorities(*f.RedisCA); err != nil {
			return opts, fmt.Errorf("--redis-ca: %w", err)
		}
	}
	if f.RedisCert != nil && f.RedisKey != nil { // kong requires both or neither
		if opts.Certificate, err = reload.Pair(*f.RedisCert, *f.RedisKey); err != nil {
			return opts, fmt.Errorf("%s: %w", ofFile(err, "--redis-cert", *f.RedisCert, "--redis-key"), err)
		}
	}
	return opts, nil
}

// ofFile returns the flag that names the file in err: one if that file is path, or err has none; otherwise other.
func ofFile(err error, one, path, other string) string {
	var of *reload.FileError
	if errors.As(err, &of) && of.Path != path {
		return other
	}
	return one
}

// passwordFile returns the password in a file, or "" if the flag is not given.
func passwordFile(flag string, path *string) (string, error) {
	if path == nil {
		return "", nil
	}
	text, err := reload.Read(*path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	text = reload.TrimLine(text)
	switch {
	case len(text) == 0:
		err = errors.New("the file has no password")
	case bytes.ContainsAny(text, "\r\n\x00"):
		err = errors.New("a password is one line of text")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, reload.NewFileError(*path, err))
	}
	return string(text), nil
}
