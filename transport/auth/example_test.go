package auth_test

import (
	"fmt"
	"log"
	"time"

	"roomd/transport/auth"
)

func ExampleVerifier() {
	const secret = "not a good secret, but long enough"
	signer, err := auth.SecretSigner(secret)
	if err != nil {
		log.Fatal(err)
	}
	token, err := signer.Sign(auth.Identity{
		User: "张三", Rooms: []string{"table-*"}, Expires: time.Now().Add(time.Hour),
	})
	if err != nil {
		log.Fatal(err)
	}

	verifier, err := auth.New(auth.Secret(secret), auth.Options{})
	if err != nil {
		log.Fatal(err)
	}
	who, err := verifier.Verify(token)
	fmt.Println(who.User, who.Role, err)
	fmt.Println(who.May(auth.Enter, "table-7", false))
	fmt.Println(who.May(auth.Enter, "42", false))
	_, err = verifier.Verify(token + "A")
	fmt.Println(err)
	// Output:
	// 张三 player <nil>
	// <nil>
	// the token does not allow room 42
	// the token's signature is wrong
}
