//! What the processes of a run start, and how they talk.

use crate::world::World;

#[test]
fn children_are_inside_too() {
    let world = World::new();
    let said = world.python(
        "
import os, subprocess
subprocess.run('echo shell > s.txt; cp s.txt t.txt', shell=True, check=True)
subprocess.run(['/bin/sh', '-c', 'echo bare > bare.txt'], env={}, check=True)
subprocess.run(['touch', 'x'], cwd='data', check=True)
os.system('echo system > y.txt')
print(subprocess.check_output(['cat', 's.txt', 't.txt', 'bare.txt', 'y.txt'], text=True).split(), os.listdir('data') == subprocess.check_output(['ls', '-U', 'data'], text=True).split())
with open('out.txt', 'w') as out: subprocess.run(['echo', 'redirected'], stdout=out, check=True)
print(open('out.txt').read().strip())
pid = os.posix_spawn('/bin/sh', ['sh', '-c', 'echo spawned'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 1, 'spawned.txt', os.O_WRONLY | os.O_CREAT, 0o644)])
os.waitpid(pid, 0)
print(open('spawned.txt').read().strip())
",
    );
    assert_eq!(said, "['shell', 'shell', 'bare', 'system'] True\nredirected\nspawned\n");
}

#[test]
fn what_was_written_is_run() {
    let world = World::new();
    let said = world.shell("printf '#!/bin/sh\\necho ran $0\\n' > run.sh; chmod +x run.sh; ./run.sh; mkdir bin; mv run.sh bin/tool; PATH=$PWD/bin:$PATH; tool")
        .replace(world.tree.to_str().unwrap(), "TREE")
        .replace(world.home.to_str().unwrap(), "HOME");
    assert_eq!(said.lines().count(), 2, "{said}");
    let said = world.python(
        "
import subprocess, os
os.makedirs('tools'); open('tools/hello', 'w').write('#!/bin/sh\\necho hello\\n'); os.chmod('tools/hello', 0o755)
print(subprocess.check_output(['./tools/hello'], text=True).strip())
os.environ['PATH'] = os.getcwd() + '/tools:' + os.environ['PATH']
print(subprocess.check_output(['hello'], text=True).strip(), flush=True)
os.execvp('hello', ['hello'])
",
    );
    assert_eq!(said, "hello\nhello\nhello\n");
}

#[test]
fn modules_and_libraries_that_were_written_are_loaded() {
    let world = World::new();
    let said = world.python("
import ctypes, shutil, sys, sysconfig, _ctypes, os
os.makedirs('package'); open('package/__init__.py', 'w').write('x = 5')
sys.path.insert(0, os.getcwd())
import package
import math, _ctypes
print(package.x, package.__file__ == os.getcwd() + '/package/__init__.py')
library = next(line.split()[-1] for line in open('/proc/self/maps') if 'libz.so' in line or 'libm.so' in line or 'libm-' in line)
shutil.copy(library, 'copied.so')
print(ctypes.CDLL(os.path.abspath('copied.so'))._name == os.getcwd() + '/copied.so')
");
    assert_eq!(said, "5 True\nTrue\n");
}

#[test]
fn processes_talk_through_sockets_and_managers() {
    let world = World::new();
    let said = world.python("
import os, socket, multiprocessing as mp
open('x', 'w').close()
def child(queue): queue.put(os.getcwd() and 5)
if __name__ == '__main__':
    server = socket.socket(socket.AF_UNIX); server.bind('server.sock'); server.listen()
    client = socket.socket(socket.AF_UNIX); client.connect('server.sock')
    print(os.path.exists('server.sock'))
    os.chdir('data'); client2 = socket.socket(socket.AF_UNIX); client2.connect(os.path.abspath('../server.sock')); os.chdir('..')
    with mp.Manager() as manager:
        shared = manager.dict(); shared['a'] = 1
        print(dict(shared))
    queue = mp.get_context('fork').Queue(); process = mp.get_context('fork').Process(target=child, args=(queue,)); process.start()
    print(queue.get()); process.join()
");
    assert_eq!(said, "True\n{'a': 1}\n5\n");
}
