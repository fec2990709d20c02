"""Learns the trees of `src/cudnn/convolution.bin` from measurements. Needs scikit-learn.

usage: learn.py LAYERS.json REAL NULL OUT.bin    (the folders that measure.py wrote to)

A size is a sum: copies of some of input, output and filter (channels filled up to a multiple), and a few bytes, `k` partial results of
32 bits, or tiles of 64 or 16 KiB. The trees' leaves say which; layers of held-out networks are only used to say how right they are.
"""
import glob,gzip,json,math,struct,sys,time
from collections import Counter,defaultdict
import numpy as np
from sklearn.tree import DecisionTreeClassifier as DT

def load(folder):
    found={}
    for f in glob.glob(f"{folder}/conv*.gz"):
        for r in json.load(gzip.open(f)): found[r[0]]=r[1:]
    return found
ES=dict(f32=4,bf16=2,f16=2)
def outshape(r):
    _,_,xs,ws,st,pad,dil,tr,op,g,*_=r
    if tr: return [xs[0],ws[1]*g]+[(xs[2+i]-1)*st[i]-2*pad[i]+dil[i]*(ws[2+i]-1)+op[i]+1 for i in range(len(st))]
    return [xs[0],ws[0]]+[(xs[2+i]+2*pad[i]-dil[i]*(ws[2+i]-1)-1)//st[i]+1 for i in range(len(st))]
def extra(a,b):
    c=Counter(a); c.subtract(Counter(b))
    return [k for k in c.elements()], [k for k,v in c.items() if v<0]
SMALL=1300
BASES=['0','X','Y','W','XY','XW','YW','XYW']
def samples(rows,res,null):
    for k,v in res.items():
        r=rows[k]
        if r[13] or k not in null: continue
        es=ES[r[10]]; y=outshape(r)
        xs,ws_=r[2],r[3]
        X=math.prod(xs)*es; W=math.prod(ws_)*es; Y=math.prod(y)*es
        if r[7]: ops=[1,0,2]; X,Y=Y,X; xin,yout=y,xs
        else: ops=[0,1,2]; xin,yout=xs,y
        for i in range(3):
            e,m=extra(v[i],null[k][i])
            yield dict(id=k,groups=r[1],op=ops[i],dt=r[10],tf32=r[11],cl=r[12],x=xin,y=yout,w=ws_,st=r[4],pad=r[5],dil=r[6],g=r[9],tr=int(r[7]),es=es,X=X,Y=Y,W=W,ws=e[0] if e else 0)
PADS=[1,4,8]
up=lambda v,p:-(-v//p)*p
def sizes(s,p):
    es=s['es']; g=s['g']
    x,y,w=s['x'],s['y'],s['w']
    sp=lambda t:math.prod(t[2:])
    c=up(x[1],p) if g==1 else g*up(x[1]//g,p); k=up(y[1],p) if g==1 else g*up(y[1]//g,p)
    return dict(X=x[0]*c*sp(x)*es, Y=y[0]*k*sp(y)*es, W=k*(c//g)*sp(w)*es)
def outp(s,V): return [V['Y'],V['X'],V['W']][s['op']]*4//s['es']
def value(s,lab,n):
    p,b,kind=lab
    if kind in('none','?'): return 0
    if kind=='small' and b=='0': return n
    V=sizes(s,int(p)); B=sum(V[q] for q in b if q in V)
    return B+(n if kind=='small' else s['x'][0]*outp(s,V) if kind=='N' else n*outp(s,V) if kind=='k' else n*(65536 if kind=='t' else 16384))
def label(s):
    ws=s['ws']
    if ws==0: return ('1','0','none',0)
    if ws<=SMALL: return ('1','0','small',ws)
    N=s['x'][0]
    Vs=[(p,sizes(s,p)) for p in PADS]
    for kind in ('small','k','t','t16'):
        for p,V in Vs:
            out=outp(s,V)
            for b in BASES[::-1]:
                r=ws-sum(V[q] for q in b if q in V)
                if r<0: continue
                if kind=='small':
                    if b!='0' and r<=SMALL: return (str(p),b,kind,r)
                elif kind=='k':
                    k=r//out
                    if 0<k<=512 and r-k*out<=SMALL: return (str(p),b,'N' if k==N and k>4 else 'k',k)
                else:
                    u=65536 if kind=='t' else 16384
                    t=r//u
                    if 0<t<=528 and r-t*u<=SMALL: return (str(p),b,kind,t)
    return ('?','?','?',ws)
def features(s):
    if len(s['x'])==3:
        s=dict(s); one=lambda t:[t[0],t[1],1]+list(t[2:])
        s.update(x=one(s['x']),y=one(s['y']),w=one(s['w']),st=[1]+s['st'],pad=[0]+s['pad'],dil=[1]+s['dil'])
    x,y,w=s['x'],s['y'],s['w']; g=s['g']; d=len(x)-2
    N=x[0]; C=x[1]//g; K=y[1]//g; P=math.prod(y[2:]); Q=math.prod(x[2:]); R=math.prod(w[2:])
    M=N*P
    m,n,k=[(M,K,C*R),(N*Q,C,K*R),(K,C*R,M)][s['op']]
    t=lambda q1,q2:(-(-m//q1))*(-(-n//q2))*g
    f=[N,C,K,g,P,Q,R,w[2],w[-1],x[2],x[-1],s['st'][0],s['st'][-1],s['pad'][0],s['pad'][-1],s['dil'][-1],d,C%4,K%4,C%8,K%8,C%32,K%32,C%64,K%64,N%4,N%8,P%4,P%8,Q%4,Q%8,s['X'],s['Y'],s['W'],m,n,k,t(128,128),t(64,64),t(256,128),t(128,64),t(128,256),t(256,64),C*R,K*R,m*n*k*g,y[2],y[-1],k//max(1,m),k//max(1,n),s['es'],g*C,g*K,N*Q,N*P,min(C,K),int(C==1 and g>1)]
    return f
def lab2(l):
    p,b,k,n=l
    if k in('none','N'): return l[:3]
    if k=='small': return l[:3]+((n//16,) if b!='0' else (n,))
    if k=='k': return l[:3]+(n if n<=16 else int(round(math.log2(n)*4)),)
    if k in('t','t16'): return l[:3]+(int(round(math.log2(n)*3)),)
    return l[:3]+(int(round(math.log2(n)*4)),)
def val(s,cls,n):
    p,b,k=cls
    if k=='?': return n
    return value(s,cls,n)
def fit(tr,leaves,minleaf=1,**kw):
    labs=Counter(lab2(s['lab']) for s in tr)
    L=sorted(labs,key=str); ix={l:i for i,l in enumerate(L)}
    X=np.array([s['f'] for s in tr],np.float32); y=np.array([ix[lab2(s['lab'])] for s in tr])
    t=DT(min_samples_leaf=minleaf,max_leaf_nodes=leaves,random_state=0,**kw).fit(X,y)
    leaf=t.apply(X); pred=t.predict(X)
    acc=defaultdict(list)
    for s,a in zip(tr,leaf): acc[a].append(s['lab'])
    out={}
    for a,ls in acc.items():
        c=Counter(l[:3] for l in ls).most_common(1)[0][0]
        ns=sorted(l[3] for l in ls if l[:3]==c)
        m=Counter(ns).most_common(1)[0]
        out[a]=(c, m[0] if m[1]*2>=len(ns) else ns[len(ns)//2])
    return t,out
def ev(t,out,he):
    X=np.array([s['f'] for s in he],np.float32)
    lv=t.apply(X); ok=0; near=0; err=0; tot=0; ioerr=[]
    for s,a in zip(he,lv):
        c,n=out[a]; v=val(s,c,n)
        io=s['X']+s['Y']+s['W']
        ok+=abs(v-s['ws'])<=512; near+=abs(v-s['ws'])<=0.05*io
        ioerr.append((v-s['ws'])/io)
    ioerr=np.array(ioerr)
    return round(ok/len(he),3),round(near/len(he),3),round(float(np.mean(np.abs(ioerr))),3),round(float(np.mean(ioerr)),3)

KIND=dict(none=0,small=1,k=2,t=3,t16=4,N=5); KIND['?']=6
def export(path,leaves):
    blob=bytearray(); n_all=0; trees=[]
    for key in sorted(G):
        ss=G[key]; tr=[s for s in ss if not s['held']]; he=[s for s in ss if s['held']]
        t,o=fit(tr,leaves(key,len(tr)))
        T=t.tree_
        nodes=[]
        def walk(i):
            at=len(nodes); nodes.append(None)
            if T.children_left[i]<0:
                c,n=o[i]; p,b,k=c
                if k=='?': c=('1','0','small'); p,b,k=c
                bits=0 if b=='0' else sum({'X':1,'Y':2,'W':4}[q] for q in b)
                code=(KIND[k])|(bits<<4)|(int(p)<<8)
                nodes[at]=struct.pack('<BBHI',255,0,code,min(int(n),2**32-1)); return
            f=np.float32(T.threshold[i])
            if float(f)>T.threshold[i]: f=np.nextafter(f,np.float32(-np.inf))
            walk(T.children_left[i]); right=len(nodes); walk(T.children_right[i])
            assert right-at<1<<16
            nodes[at]=struct.pack('<BBHf',T.feature[i],0,right-at,f)
        sys.setrecursionlimit(100000); walk(0)
        op,w,tf,cl=key
        blob+=struct.pack('<BBBBI',op,1 if w=='half' else 0,tf,cl,len(nodes))+b''.join(nodes); n_all+=len(nodes)
        print(key,len(tr),len(nodes),ev(t,o,he) if he else None)
    open(path,'wb').write(blob); print(n_all,len(blob))

if __name__=='__main__':
    rows={r[0]:r for r in json.load(open(sys.argv[1]))}
    S=[]
    for s in samples(rows,load(sys.argv[2]),load(sys.argv[3])):
        s['lab']=label(s); s['f']=features(s); s['held']=all(q.startswith('held') for q in s['groups']); S.append(s)
    G=defaultdict(list)
    for s in S: G[(s['op'],'half' if s['es']==2 else 'f32',s['tf32'],s['cl'])].append(s)
    export(sys.argv[4],lambda key,n: 1500 if key[1:]==('f32',1,0) else 1000 if key[2] and n>15000 else 500)
