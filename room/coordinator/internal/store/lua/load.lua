-- Reads a room in one step.
-- KEYS[1] Room:<id>:Users   KEYS[2] Room:<id>:Meta
-- returns {epoch, version, commit id, members, settings, data, bans, gone, timers, host, incarnation, {user, member as JSON,
--         ...}}; each of the first eleven is false if Redis has none
return room_read(KEYS[1], KEYS[2])
