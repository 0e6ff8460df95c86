-- Gives the lock back after the room was written. (commit_write.lua stands in front
-- of this, and between them are lockmgr's functions.)
local lock = lock_at(1, ARGV[1], ARGV[2])
if ARGV[4] ~= '' then
  return {'done', lock_pass(lock, ARGV[4], ARGV[5], tonumber(ARGV[6])) and 1}
end
lock_give(lock, ARGV[3])
return {'done', false}
