-- Acquires a room's lock and reads the room, or waits for the lock.
--
-- KEYS[1..3] the lock     KEYS[4] Room:<id>:Users   KEYS[5] Room:<id>:Meta
-- ARGV[1], ARGV[2] of the lock (publish, claim)
-- ARGV[3] token           ARGV[4] TTL; see room_ttl
-- ARGV[5] 1 if the caller has a copy of the room: the commit checks if it is old
--
-- returns {'yours'}         the lock is held; the room was not read
--         {'yours', epoch, version, commit id, members, settings, data, bans, gone, timers, host, incarnation, {user, member, ...}}
--                           the lock is held, and this is the room (see load.lua)
--         {'queued'}        another holds the lock, and the token waits
if not lock_acquire(1, ARGV[3], room_ttl(KEYS[5]), true) then
  return {'queued'}
end
if ARGV[5] == '1' then
  return {'yours'}
end
return {'yours', unpack(room_read(KEYS[4], KEYS[5]), 1, 12)}
