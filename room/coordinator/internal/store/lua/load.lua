-- Reads a room in one step.
-- KEYS[1] Room:<id>:Users   KEYS[2] Room:<id>:Meta
-- returns {epoch, version, commit id, members, settings, data, bans, gone, timers, incarnation, {user, member as JSON,
--         ...}}; each of the first ten is false if Redis has none
return room_read(KEYS[1], KEYS[2])
