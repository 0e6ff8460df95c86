// Package auth verifies the JSON Web Tokens (RFC 7519) by which game clients say who they are, and
// makes tokens for tests and small setups.
//
// Start with a [KeySource], make a [Verifier] of it with [New], and call [Verifier.Verify]. A [Signer] makes tokens.
//
// The package promises:
//
//   - The key decides which algorithm counts, never the token: HS256 for a secret, RS256, ES256 or
//     EdDSA for a public key. No key comes from a token.
//   - A token without exp is refused, and so is one whose claims two JSON readers could understand
//     differently: with a name given twice, or in other letter case. Clocks get no leeway.
//   - No error and no log line holds a token or a part of one.
//   - A key file that changes is read again, at most a second later. While the new content cannot
//     be used, the old keys count.
//
// It does not promise that a token is used once, or that it can be revoked before it expires; to
// revoke all tokens of a key, replace the key.
//
// The package runs no goroutines. All of it is safe for concurrent use.
package auth
