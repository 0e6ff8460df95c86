-- Writes the states of rooms to the index. Nodes may do so in any order: the later version of a room counts. If there
-- is no index, nobody asks for it, and the script writes nothing.
--
-- KEYS[1..4] of the index   KEYS[5..] of labels that the rooms have or had
-- ARGV for each room: id, epoch, version, "<members> <capacity> <closed> <labels>" or empty if the room is gone, and how
-- many free seats it offers
-- returns {how many have changed; the labels that others had, whose keys are missing}
if redis.call('EXISTS', KEYS[4]) == 0 then
  return {0, {}}
end
local _, now = index_begin()
local changed, missing = 0, {}
for i = 1, #ARGV, 5 do
  local id, epoch, version, rest, free = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 4])
  local old = redis.call('HGET', KEYS[1], id)
  local e, v, since, was = string.match(old or '', '^(%S+) (%S+) (%S+) ?(.*)$')
  if e ~= epoch or tonumber(v) <= tonumber(version) then
    local labels, before = string.match(rest, '(%S+)$'), string.match(was or '', '^%S+ %S+ %S+ (%S+)')
    if before ~= labels and not index_free(before, id, 0) then
      missing[#missing + 1] = before
    elseif index_free(labels, id, free) -- also for a known version: claimed seats may not have been taken
      and (e ~= epoch or v ~= version or was ~= rest) then
      index_set(id, epoch, version, was and was ~= '' and since or string.format('%.0f', now), rest, now)
      changed = changed + 1
    end
  end
end
return {changed, missing}
