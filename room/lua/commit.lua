-- Gives the lock back after the room was written, to who has waited longest: somebody
-- waits, and it is not the next token, which nobody has seen before. (commit_write.lua
-- stands in front of this, and between them are lockmgr's functions.)
local line = lock_line(1)
line.offer()
if heir ~= '' then
  line.queue(heir, tonumber(keep))
end
return {'done', false, unheard}
