-- A user leaves a room, without a lock.
-- KEYS[1]  the room's members, a hash from user to session
-- ARGV[1]  the user
-- Returns 1 if the user was in, 0 if not.
return redis.call('HDEL', KEYS[1], ARGV[1])
